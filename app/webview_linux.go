//go:build desktop

package app

// #cgo LDFLAGS: -ldl
// #define _GNU_SOURCE
// #include <dlfcn.h>
// #include <stdlib.h>
//
// static int webview_linked(void) { return dlsym(RTLD_DEFAULT, "webkit_web_view_new") != NULL; }
// static int webview_display(void) {
//	int (*init)(int *, char ***) = (int (*)(int *, char ***))dlsym(RTLD_DEFAULT, "gtk_init_check");
//	return init != NULL && init(NULL, NULL);
// }
// static const char *webview_missing(const char *lib) {
//	return dlopen(lib, RTLD_LAZY | RTLD_GLOBAL) ? NULL : dlerror();
// }
import "C"

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"unsafe"
)

const (
	webviewLibrary = "libwebkit2gtk-4.1.so.0"
	preload        = "LD_PRELOAD"
	formerPreload  = "GLOVEBOX_FORMER_LD_PRELOAD" // set by us alone, across one exec
)

// loadWebview has the system's webview loaded, or says what to install. The
// program starts without it, so that every verb but this one works on a machine
// that has none (see build/lazylink): what its symbols are bound to is settled
// when a program starts, so it starts once more, with the library loaded first.
func loadWebview() error {
	if former, again := os.LookupEnv(formerPreload); again {
		_ = os.Unsetenv(formerPreload)
		_ = os.Setenv(preload, former) // commands that we start are not to load it
		if former == "" {
			_ = os.Unsetenv(preload)
		}
	} else if C.webview_linked() == 0 {
		name := C.CString(webviewLibrary)
		defer C.free(unsafe.Pointer(name))
		if why := C.webview_missing(name); why != nil {
			return noWebviewError(C.GoString(why))
		}
		former := os.Getenv(preload)
		env := append(os.Environ(), formerPreload+"="+former, preload+"="+strings.TrimSpace(webviewLibrary+" "+former))
		return fmt.Errorf("start again with %s: %w", webviewLibrary, syscall.Exec("/proc/self/exe", os.Args, env))
	}
	if C.webview_linked() == 0 {
		return noWebviewError("it was not loaded")
	}
	if C.webview_display() == 0 { // else GTK would end the process with a trace
		return errNoDisplay
	}
	return nil
}

func noWebviewError(why string) error {
	return fmt.Errorf("the window needs WebKitGTK 4.1, which cannot be loaded (%s);\n"+
		"install it (Debian, Ubuntu: apt-get install libwebkit2gtk-4.1-0), or run: glovebox serve", why)
}
