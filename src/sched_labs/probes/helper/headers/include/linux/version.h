/* The oldest kernel that we load on.  BCC asks; the kernel has ignored it for our kinds of program since 5.0. */
#define KERNEL_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + (c))
#define LINUX_VERSION_CODE KERNEL_VERSION(5, 10, 0)
