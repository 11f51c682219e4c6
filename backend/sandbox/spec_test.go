package sandbox

import (
	"errors"
	"testing"
)

// TestSpec_Validate_namesTheField: what no wall can make is refused before
// anything is made, by the name of its field.
func TestSpec_Validate_namesTheField(t *testing.T) {
	env := func(v EnvValue) Spec { return Spec{Env: map[string]EnvValue{"A": v}} }
	mount := func(target string) Spec { return Spec{Mounts: []Mount{{Source: "/srv", Target: target}}} }
	for _, tt := range []struct {
		name  string
		spec  Spec
		field string
	}{
		{"nothing named", Spec{}, ""},
		{"workdir", Spec{Workdir: "/srv/work"}, ""},
		{"relative workdir", Spec{Workdir: "work"}, "workdir"},
		{"workdir is the root", Spec{Workdir: "/x/.."}, "workdir"},
		{"workdir of the kernel", Spec{Workdir: "/proc"}, "workdir"},
		{"workdir of the guest", Spec{Workdir: "/run/glovebox"}, "workdir"},
		{"workdir with NUL", Spec{Workdir: "/a\x00b"}, "workdir"},
		{"target", mount("/process"), ""},
		{"target is the root", mount("//"), "mounts[0].target"},
		{"target of the kernel", mount("/sys/fs"), "mounts[0].target"},
		{"target of the kernel's devices", mount("/dev/shm"), "mounts[0].target"},
		{"target of the system, by a detour", mount("/workspace/../etc"), "mounts[0].target"},
		{"target of the system, as a link leads there", mount("/var/run/"), "mounts[0].target"},
		{"programs that are lent", mount("/usr/"), ""},
		{"libraries that are lent", mount("/lib64"), ""},
		{"target over the guest", mount("/run"), "mounts[0].target"},
		{"target in a directory of the system", mount("/etc/ssl/certs/own.pem"), ""},
		{"workdir of the system", Spec{Workdir: "/etc"}, "workdir"},
		{"target of the guest", mount("/run/glovebox/box"), "mounts[0].target"},
		{"target with NUL", mount("/a\x00b"), "mounts[0].target"},
		{"literal", env(EnvValue{Literal: "a=b"}), ""},
		{"literal with NUL", env(EnvValue{Literal: "a\x00b"}), "env.A"},
		{"host variable with =", env(EnvValue{FromHost: "A=b"}), "env.A"},
		{"literal and host variable", env(EnvValue{Literal: "a", FromHost: "A"}), "env.A"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.spec.Validate()
			var fault *FieldError
			if errors.As(err, &fault); tt.field == "" && err != nil || tt.field != "" && (fault == nil || fault.Field != tt.field) {
				t.Errorf("Validate() = %v, want a fault of %q", err, tt.field)
			}
		})
	}
}
