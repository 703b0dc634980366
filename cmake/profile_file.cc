// The file that a program built with KMIRROR_COVERAGE writes its line counts to. %4m: processes of
// one program merge into four files.
extern "C" {
__attribute__((visibility("hidden"))) extern const char __llvm_profile_filename[];
const char __llvm_profile_filename[] = KMIRROR_PROFILE_FILE;
}
