/* Counters of energy in a made-up /sys. */
#include "support.h"

#include "base/energy.h"

#include <ftw.h>

static char root[64];

static void make_folder(const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s%s", root, name);
    assert_int_equal(mkdir(path, 0777), 0);
}

static void write_file(const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s%s", root, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int make_root(void **state) {
    (void)state;
    snprintf(root, sizeof root, "/tmp/ew-energy-XXXXXX");
    if (!mkdtemp(root)) {
        return 1;
    }
    make_folder("/sys");
    make_folder("/sys/class");
    return 0;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *where) {
    (void)status;
    (void)type;
    (void)where;
    return remove(path);
}

static int remove_root(void **state) {
    (void)state;
    return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void a_machine_without_counters_is_silent(void **state) {
    (void)state;
    ew_energy energy;
    ew_energy_start(root, &energy);
    assert_int_equal(energy.n_sources, 0);
    assert_true(ew_energy_joules(&energy) < 0);
}

static void packages_are_summed_and_begin_anew(void **state) {
    (void)state;
    ew_energy energy;
    make_folder("/sys/class/powercap");
    make_folder("/sys/class/powercap/intel-rapl");
    make_folder("/sys/class/powercap/intel-rapl:0");
    make_folder("/sys/class/powercap/intel-rapl:0:0"); /* a part of package 0 */
    make_folder("/sys/class/powercap/intel-rapl:1");
    write_file("/sys/class/powercap/intel-rapl:0/energy_uj", "1000000\n");
    write_file("/sys/class/powercap/intel-rapl:0/max_energy_range_uj", "9000000\n");
    write_file("/sys/class/powercap/intel-rapl:0:0/energy_uj", "77\n");
    write_file("/sys/class/powercap/intel-rapl:1/energy_uj", "8000000\n");
    write_file("/sys/class/powercap/intel-rapl:1/max_energy_range_uj", "9000000\n");
    ew_energy_start(root, &energy);
    assert_int_equal(energy.n_sources, 2);
    assert_true(ew_energy_joules(&energy) == 0);
    write_file("/sys/class/powercap/intel-rapl:0/energy_uj", "3500000\n");
    write_file("/sys/class/powercap/intel-rapl:1/energy_uj", "500000\n");
    assert_float_equal(ew_energy_joules(&energy), 2.5 + 1.5, 1e-9);
    write_file("/sys/class/powercap/intel-rapl:1/energy_uj", "none\n");
    assert_true(ew_energy_joules(&energy) < 0);
}

static void a_battery_that_is_used(void **state) {
    (void)state;
    ew_energy energy;
    make_folder("/sys/class/power_supply");
    make_folder("/sys/class/power_supply/AC");
    make_folder("/sys/class/power_supply/BAT0");
    write_file("/sys/class/power_supply/BAT0/energy_now", "50000000\n");
    write_file("/sys/class/power_supply/BAT0/status", "Charging\n");
    ew_energy_start(root, &energy);
    assert_int_equal(energy.n_sources, 0);
    write_file("/sys/class/power_supply/BAT0/status", "Discharging\n");
    make_folder("/sys/class/power_supply/BAT1");
    write_file("/sys/class/power_supply/BAT1/status", "Discharging\n");
    write_file("/sys/class/power_supply/BAT1/charge_now", "2000000\n");
    write_file("/sys/class/power_supply/BAT1/voltage_now", "12000000\n");
    ew_energy_start(root, &energy);
    assert_int_equal(energy.n_sources, 2);
    write_file("/sys/class/power_supply/BAT0/energy_now", "49990000\n"); /* 10 mWh */
    write_file("/sys/class/power_supply/BAT1/charge_now", "1999000\n");  /* 1 mAh at 12 V */
    assert_float_equal(ew_energy_joules(&energy), 36.0 + 43.2, 1e-6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_machine_without_counters_is_silent, make_root, remove_root),
        cmocka_unit_test_setup_teardown(packages_are_summed_and_begin_anew, make_root, remove_root),
        cmocka_unit_test_setup_teardown(a_battery_that_is_used, make_root, remove_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
