/*
 * SoftHSM whose calls of C_Encrypt and C_Decrypt do not return while the file HANGING_MODULE exists; for tests of providers that hang. It
 * exports C_GetFunctionList alone, which is all that the standard requires of a module.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>
typedef unsigned long (*Call)(unsigned long, void *, unsigned long, void *, void *);
typedef struct {
  unsigned char version[2];
  void *calls[68];
} List;
enum { encrypt_at = 30, decrypt_at = 34 };
static List real, replaced;
static unsigned long pass(int at, unsigned long s, void *in, unsigned long n, void *out, void *len) {
  const char *file = getenv("HANGING_MODULE");
  while (file && access(file, F_OK) == 0) usleep(20000);
  return ((Call)real.calls[at])(s, in, n, out, len);
}
static unsigned long encrypt(unsigned long s, void *in, unsigned long n, void *out, void *len) { return pass(encrypt_at, s, in, n, out, len); }
static unsigned long decrypt(unsigned long s, void *in, unsigned long n, void *out, void *len) { return pass(decrypt_at, s, in, n, out, len); }
unsigned long C_GetFunctionList(List **list) {
  void *library = dlopen(SOFTHSM, RTLD_NOW | RTLD_LOCAL);
  unsigned long (*get)(List **) = library ? (unsigned long (*)(List **))dlsym(library, "C_GetFunctionList") : 0;
  List *found;
  if (!get || get(&found) != 0) return 5; /* CKR_GENERAL_ERROR */
  real = replaced = *found;
  replaced.calls[encrypt_at] = encrypt;
  replaced.calls[decrypt_at] = decrypt;
  *list = &replaced;
  return 0;
}
