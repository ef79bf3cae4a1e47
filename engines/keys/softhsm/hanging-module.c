/* SoftHSM whose calls of C_Encrypt and C_Decrypt do not return while the file HANGING_MODULE exists; for tests of providers that hang. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>
typedef unsigned long (*Call)(unsigned long, void *, unsigned long, void *, void *);
static unsigned long pass(const char *name, unsigned long s, void *in, unsigned long n, void *out, void *len) {
  const char *file = getenv("HANGING_MODULE");
  while (file && access(file, F_OK) == 0) usleep(20000);
  return ((Call)dlsym(RTLD_NEXT, name))(s, in, n, out, len);
}
unsigned long C_Encrypt(unsigned long s, void *in, unsigned long n, void *out, void *len) { return pass("C_Encrypt", s, in, n, out, len); }
unsigned long C_Decrypt(unsigned long s, void *in, unsigned long n, void *out, void *len) { return pass("C_Decrypt", s, in, n, out, len); }
