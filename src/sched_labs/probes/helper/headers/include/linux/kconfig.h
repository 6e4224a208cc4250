/* BCC compiles inside a tree of kernel headers.  Our programs take nothing from the kernel's headers, so this
 * small tree stands in for one: headers of another kernel would place every field wrongly and say nothing.
 * These are the switches that BCC's own headers ask for. */
#define CONFIG_BPF_SYSCALL 1
