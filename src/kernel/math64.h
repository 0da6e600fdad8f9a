/* Elementary functions in double as fixed sequences of operations: the same bits on every machine, where libm's are
 * not (docs/arithmetic.md, "Double functions"). */
#ifndef EW_KERNEL_MATH64_H
#define EW_KERNEL_MATH64_H

double ew_log64(double x); /* x > 0; -infinity for 0, NaN below */
double ew_exp64(double x); /* 0 below -745, infinity above 709.78 */
/* |x| up to 2^20 * pi/2 to full accuracy: any position times any inverse frequency. */
void ew_sincos64(double x, double *sine, double *cosine);

#endif
