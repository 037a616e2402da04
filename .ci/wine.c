/* The DLL bcryptprimitives, from which std has its random numbers. Debian's Wine 8 has none. Built by
   platforms.sh. */
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(void *buffer, ULONG length);

__declspec(dllexport) BOOL WINAPI ProcessPrng(BYTE *buffer, SIZE_T length) {
    return SystemFunction036(buffer, (ULONG)length);
}
