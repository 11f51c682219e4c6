package files

import (
	"maps"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// fileTypes are the names that a search can be limited to, named as ripgrep
// names them; each stands for alternatives of a glob of base names.
var fileTypes = map[string]string{
	"asm": "*.asm,*.s,*.S", "bazel": "*.bzl,BUILD,BUILD.bazel,WORKSPACE,WORKSPACE.bazel,MODULE.bazel",
	"c": "*.c,*.h,*.H", "clojure": "*.clj,*.cljc,*.cljs,*.edn", "cmake": "*.cmake,CMakeLists.txt",
	"config": "*.cfg,*.conf,*.config,*.ini", "cpp": "*.cpp,*.cc,*.cxx,*.C,*.hpp,*.hh,*.hxx,*.h,*.inl,*.ipp",
	"cs": "*.cs", "csharp": "*.cs", "css": "*.css,*.scss,*.sass,*.less", "csv": "*.csv,*.tsv",
	"dart": "*.dart", "docker": "Dockerfile,Dockerfile.*,*.dockerfile,Containerfile", "elixir": "*.ex,*.exs,*.eex,*.heex",
	"elm": "*.elm", "erlang": "*.erl,*.hrl", "fish": "*.fish", "fortran": "*.f,*.f90,*.f95,*.F,*.F90", "fsharp": "*.fs,*.fsi,*.fsx",
	"go": "*.go", "gradle": "*.gradle,*.gradle.kts", "graphql": "*.graphql,*.gql", "groovy": "*.groovy,*.gradle",
	"h": "*.h,*.hh,*.hpp,*.hxx", "haskell": "*.hs,*.lhs", "html": "*.html,*.htm,*.xhtml", "java": "*.java,*.jsp",
	"js": "*.js,*.jsx,*.mjs,*.cjs,*.vue", "json": "*.json,*.jsonl,*.json5,*.jsonc,*.webmanifest", "jupyter": "*.ipynb,*.jpynb",
	"kotlin": "*.kt,*.kts", "less": "*.less", "log": "*.log", "lua": "*.lua",
	"make": "Makefile,makefile,GNUmakefile,*.mk,*.mak", "markdown": "*.md,*.markdown,*.mdx", "md": "*.md,*.markdown,*.mdx",
	"nix": "*.nix", "objc": "*.m,*.h", "ocaml": "*.ml,*.mli", "perl": "*.pl,*.pm,*.t", "php": "*.php,*.phtml",
	"proto": "*.proto", "protobuf": "*.proto", "ps": "*.ps1,*.psm1,*.psd1", "py": "*.py,*.pyi", "python": "*.py,*.pyi",
	"r": "*.r,*.R,*.Rmd", "rst": "*.rst", "ruby": "*.rb,*.gemspec,Gemfile,Rakefile", "rb": "*.rb,*.gemspec,Gemfile,Rakefile",
	"rs": "*.rs", "rust": "*.rs", "sass": "*.sass,*.scss", "scala": "*.scala,*.sbt", "sh": "*.sh,*.bash,*.zsh,*.ksh,.bashrc,.profile,.zshrc",
	"sql": "*.sql,*.psql", "svelte": "*.svelte,*.svelte.ts", "svg": "*.svg", "swift": "*.swift", "tex": "*.tex,*.ltx,*.cls,*.sty,*.bib",
	"tf": "*.tf,*.tfvars,*.tf.json", "toml": "*.toml,Cargo.lock", "ts": "*.ts,*.tsx,*.cts,*.mts", "tsx": "*.tsx", "jsx": "*.jsx",
	"typescript": "*.ts,*.tsx,*.cts,*.mts", "txt": "*.txt", "vim": "*.vim,.vimrc", "vue": "*.vue", "wasm": "*.wat,*.wast",
	"xml": "*.xml,*.xsd,*.xsl,*.xslt,*.xhtml,*.svg", "yaml": "*.yaml,*.yml", "yml": "*.yaml,*.yml", "zig": "*.zig,*.zon",
}

func knownTypes() string {
	return strings.Join(slices.Sorted(maps.Keys(fileTypes)), ", ")
}

// matchGlob reports whether the glob, which may begin with a slash, matches
// path, or a directory that it is in.
func matchGlob(glob, path string) bool {
	glob = strings.TrimSuffix(strings.TrimPrefix(glob, "/"), "/")
	for {
		if doublestar.MatchUnvalidated(glob, path) {
			return true
		}
		i := strings.LastIndexByte(path, '/')
		if i < 0 {
			return false
		}
		path = path[:i]
	}
}
