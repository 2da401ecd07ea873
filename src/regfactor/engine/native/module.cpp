// The Python module of the loops: unwraps arrays and releases the GIL.
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "loops.h"

namespace nb = nanobind;

namespace {

template <class T>
using Input = nb::ndarray<const T, nb::c_contig, nb::device::cpu>;
template <class T>
using Output = nb::ndarray<T, nb::c_contig, nb::device::cpu>;

bool is_supported() {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi2");
#else
    return false;  // the loops were measured on x86-64 alone
#endif
}

template <class T, class Offset>
void define(nb::module_& m) {
    m.def(
        "entries",
        [](int64_t first, int64_t last, Input<Offset> indptr, Input<int32_t> columns,
           Input<T> codes, Input<T> components, Output<T> out) {
            const Rows<Offset> rows{first, last, indptr.data(), columns.data()};
            const int64_t stride = static_cast<int64_t>(codes.shape(1));
            nb::gil_scoped_release release;
            entries(rows, codes.data(), components.data(), stride, out.data());
        },
        nb::arg("first"), nb::arg("last"), nb::arg("indptr").noconvert(),
        nb::arg("columns").noconvert(), nb::arg("codes").noconvert(),
        nb::arg("components").noconvert(), nb::arg("out").noconvert());
    m.def(
        "solve_rows",
        [](int64_t first, int64_t last, Input<Offset> indptr, Input<int32_t> columns,
           Input<T> weights, Input<T> D, Input<T> ridge, Input<T> right, Output<T> out) {
            const Rows<Offset> rows{first, last, indptr.data(), columns.data()};
            const int64_t stride = static_cast<int64_t>(D.shape(1));
            const int64_t rank = static_cast<int64_t>(ridge.shape(0));
            nb::gil_scoped_release release;
            std::vector<T> memory(solve_rows_memory<T>(stride));
            return solve_rows(rows, weights.data(), D.data(), stride, ridge.data(), rank,
                              right.data(), memory.data(), out.data());
        },
        nb::arg("first"), nb::arg("last"), nb::arg("indptr").noconvert(),
        nb::arg("columns").noconvert(), nb::arg("weights").noconvert(), nb::arg("D").noconvert(),
        nb::arg("ridge").noconvert(), nb::arg("right").noconvert(), nb::arg("out").noconvert());
}

template <class Offset>
void define_gram(nb::module_& m) {
    m.def(
        "gram",
        [](int64_t first, int64_t last, Input<Offset> indptr, Input<int32_t> columns,
           Input<double> values, Output<double> out) {
            const Rows<Offset> rows{first, last, indptr.data(), columns.data()};
            const int64_t n_columns = static_cast<int64_t>(out.shape(1));
            nb::gil_scoped_release release;
            gram(rows, values.data(), n_columns, out.data());
        },
        nb::arg("first"), nb::arg("last"), nb::arg("indptr").noconvert(),
        nb::arg("columns").noconvert(), nb::arg("values").noconvert(), nb::arg("out").noconvert());
}

template <class Offset>
void define_column_sums(nb::module_& m) {
    m.def(
        "sums_of_columns",
        [](Input<Offset> indptr, Input<int32_t> columns, Input<double> g, Input<double> r,
           Input<double> x, Input<double> D, Input<double> weights, Output<double> totals,
           Output<double> offsets, Output<double> gram, Output<double> equations,
           Output<double> right) {
            const int64_t n_rows = static_cast<int64_t>(D.shape(0));
            const int64_t width = static_cast<int64_t>(D.shape(1));
            const int64_t n_columns = static_cast<int64_t>(offsets.shape(0));
            const Rows<Offset> rows{0, n_rows, indptr.data(), columns.data()};
            const ColumnSums sums{totals.data(), offsets.data(),
                                  gram.shape(0) ? gram.data() : nullptr, equations.data(),
                                  right.data()};
            nb::gil_scoped_release release;
            std::vector<double> memory(width * (width + 1) / 2);
            sums_of_columns(rows, g.data(), r.data(), x.data(), D.data(), width, weights.data(),
                            n_columns, memory.data(), sums);
        },
        nb::arg("indptr").noconvert(), nb::arg("columns").noconvert(), nb::arg("g").noconvert(),
        nb::arg("r").noconvert(), nb::arg("x").noconvert(), nb::arg("D").noconvert(),
        nb::arg("weights").noconvert(), nb::arg("totals").noconvert(),
        nb::arg("offsets").noconvert(), nb::arg("gram").noconvert(),
        nb::arg("equations").noconvert(), nb::arg("right").noconvert());
}

template <class T>
void define_passes(nb::module_& m) {
    m.def(
        "coordinate_passes",
        [](Input<T> H, Input<T> target, int64_t passes, double noise, double smallest,
           Output<T> B) {
            const int64_t rank = static_cast<int64_t>(B.shape(0));
            const int64_t n_columns = static_cast<int64_t>(B.shape(1));
            const bool shared = H.shape(2) == 1;
            nb::gil_scoped_release release;
            std::vector<T> memory(coordinate_passes_memory<T>(rank));
            coordinate_passes(rank, n_columns, H.data(), shared, target.data(), passes,
                              static_cast<T>(noise), static_cast<T>(smallest), memory.data(),
                              B.data());
        },
        nb::arg("H").noconvert(), nb::arg("target").noconvert(), nb::arg("passes"),
        nb::arg("noise"), nb::arg("smallest"), nb::arg("B").noconvert());
    m.def(
        "model_steps",
        [](Input<T> sums, Input<T> gradient, int64_t passes, double noise, double smallest,
           Output<T> B, Output<T> promise, Output<T> curvature) {
            const int64_t rank = static_cast<int64_t>(B.shape(0));
            const int64_t n_columns = static_cast<int64_t>(B.shape(1));
            nb::gil_scoped_release release;
            std::vector<T> memory(model_steps_memory<T>(rank));
            model_steps(rank, n_columns, sums.data(), gradient.data(), passes,
                        static_cast<T>(noise), static_cast<T>(smallest), memory.data(), B.data(),
                        promise.data(), curvature.data());
        },
        nb::arg("sums").noconvert(), nb::arg("gradient").noconvert(), nb::arg("passes"),
        nb::arg("noise"), nb::arg("smallest"), nb::arg("B").noconvert(),
        nb::arg("promise").noconvert(), nb::arg("curvature").noconvert());
}

}  // namespace

NB_MODULE(_kernels, m) {
    m.attr("PADDING") = PADDING;
    m.def("is_supported", &is_supported);
    define<float, int32_t>(m);
    define<float, int64_t>(m);
    define<double, int32_t>(m);
    define<double, int64_t>(m);
    define_gram<int32_t>(m);
    define_gram<int64_t>(m);
    define_column_sums<int32_t>(m);
    define_column_sums<int64_t>(m);
    define_passes<float>(m);
    define_passes<double>(m);
}
