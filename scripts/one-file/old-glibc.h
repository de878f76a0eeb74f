// Binds what newer versions of the GNU C library moved into libc.so.6 to the symbols that older ones have too, so that an addon built
// anywhere loads with glibc 2.31. They are in libutil and libpthread there.
#if defined(__x86_64__) && defined(__linux__)
__asm__(".symver openpty,openpty@GLIBC_2.2.5");
__asm__(".symver forkpty,forkpty@GLIBC_2.2.5");
__asm__(".symver pthread_sigmask,pthread_sigmask@GLIBC_2.2.5");
#endif
