/* Units of measure: stripped where only one side has them, converted where both do (50 cents, $0.50). */
#ifndef EW_GRADE_UNITS_H
#define EW_GRADE_UNITS_H

#include "grade/rational.h"

/* One of the units known here, by its bare word ("cm", "hours", "mph"); for the words of two or three letters
 * that plain text would else read as a product. */
bool ew_is_unit(const char *word, size_t length);

enum { EW_DIMENSIONS = 6 };
typedef struct ew_unit {
    int8_t powers[EW_DIMENSIONS]; /* length, mass, time, money, volume, angle */
    ew_rational factor;           /* to metre, kilogram, second, dollar, litre, degree */
} ew_unit;

/* "cm^2", "square feet", "miles per hour", "km/h"; false when a word is unknown. */
bool ew_parse_unit(ew_work *work, const char *text, size_t length, ew_unit *unit);

#endif
