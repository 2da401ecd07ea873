// Runs every loop of regfactor.engine on drawn tables whose arrays end exactly where the wrappers of
// kernels.py let them end, and compares with plain loops. It is compiled with the address and
// undefined-behavior sanitizers by tests/test_sanitizers.py, which abort at the first wrong access.
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "loops.h"

namespace {

std::mt19937 random_bits(2026);
int n_wrong = 0;

int64_t whole(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_bits);
}

template <class T>
std::vector<T> normal(int64_t count) {
    std::normal_distribution<T> draw;
    std::vector<T> out(count);
    for (T& value : out) value = draw(random_bits);
    return out;
}

void expect_near(const char* what, double found, double expected, double tolerance) {
    if (std::abs(found - expected) <= tolerance * (1 + std::abs(expected))) return;
    std::fprintf(stderr, "%s: %g instead of %g\n", what, found, expected);
    ++n_wrong;
}

template <class T>
double tolerance() {
    return sizeof(T) == 4 ? 2e-3 : 1e-9;
}

// Rows with no entry, few or all, whose columns are in no order.
template <class Offset>
struct Table {
    int64_t n_rows = whole(0, 9);
    int64_t n_columns = whole(1, 80);
    std::vector<Offset> start{0};
    std::vector<int32_t> column;

    Table() {
        for (int64_t row = 0; row < n_rows; ++row) {
            const int64_t count = whole(0, 1) * whole(0, n_columns);
            for (int64_t e = 0; e < count; ++e)
                column.push_back(static_cast<int32_t>(whole(0, n_columns - 1)));
            start.push_back(static_cast<Offset>(column.size()));
        }
        column.shrink_to_fit();
        start.shrink_to_fit();
    }

    Rows<Offset> rows(int64_t first, int64_t last) const {
        return {first, last, start.data(), column.data()};
    }
};

// A matrix with rows of zeros behind `rank` numbers, as long as `_padded` makes them.
template <class T>
std::vector<T> padded(int64_t n_rows, int64_t rank, int64_t stride) {
    std::vector<T> out = normal<T>(n_rows * stride);
    for (int64_t row = 0; row < n_rows; ++row)
        for (int64_t j = rank; j < stride; ++j) out[row * stride + j] = 0;
    return out;
}

template <class T>
int64_t padded_width(int64_t rank) {
    const int64_t step = PADDING / static_cast<int64_t>(sizeof(T));
    const int64_t steps = (rank + step - 1) / step;
    return (steps > 0 ? steps : 1) * step;
}

template <class T, class Offset>
void check_entries() {
    const Table<Offset> table;
    const int64_t rank = whole(0, 35);
    const int64_t stride = padded_width<T>(rank);
    const auto codes = padded<T>(table.n_rows, rank, stride);
    const auto components = padded<T>(table.n_columns, rank, stride);
    std::vector<T> out(table.column.size());
    const int64_t middle = table.n_rows / 2;
    entries(table.rows(0, middle), codes.data(), components.data(), stride, out.data());
    entries(table.rows(middle, table.n_rows), codes.data(), components.data(), stride, out.data());
    for (int64_t row = 0; row < table.n_rows; ++row) {
        for (Offset e = table.start[row]; e < table.start[row + 1]; ++e) {
            double sum = 0;
            for (int64_t j = 0; j < rank; ++j)
                sum += double(codes[row * stride + j]) * components[table.column[e] * stride + j];
            expect_near("entries", out[e], sum, tolerance<T>());
        }
    }
}

template <class T, class Offset>
void check_solve_rows() {
    const Table<Offset> table;
    const int64_t rank = whole(1, 35);
    const int64_t stride = padded_width<T>(rank);
    const auto D = padded<T>(table.n_columns, rank, stride);
    const auto right = padded<T>(table.n_rows, rank, stride);
    const std::vector<T> ridge(rank, T(0.5));
    std::vector<T> weight = normal<T>(table.column.size());
    for (T& w : weight) w = std::abs(w);
    std::vector<T> memory(solve_rows_memory<T>(stride));
    std::vector<T> out(table.n_rows * stride);
    const int64_t failed =
        solve_rows(table.rows(0, table.n_rows), weight.data(), D.data(), stride, ridge.data(), rank,
                   right.data(), memory.data(), out.data());
    expect_near("failed rows", double(failed), 0, 0);
    for (int64_t row = 0; row < table.n_rows; ++row) {
        for (int64_t i = 0; i < rank; ++i) {
            double sum = ridge[i] * double(out[row * stride + i]);
            for (Offset e = table.start[row]; e < table.start[row + 1]; ++e) {
                const T* d = D.data() + table.column[e] * stride;
                double product = 0;
                for (int64_t j = 0; j < rank; ++j) product += double(d[j]) * out[row * stride + j];
                sum += weight[e] * double(d[i]) * product;
            }
            expect_near("solve_rows", sum, right[row * stride + i], 20 * tolerance<T>());
        }
    }
}

template <class Offset>
void check_gram() {
    const Table<Offset> table;
    const int64_t d = table.n_columns;
    const auto value = normal<double>(table.column.size());
    std::vector<double> found(d * d);
    gram(table.rows(0, table.n_rows), value.data(), d, found.data());
    double trace = 0;
    for (int64_t a = 0; a < d; ++a) trace += found[a * d + a];
    double expected = 0;
    for (int64_t row = 0; row < table.n_rows; ++row)
        for (Offset e = table.start[row]; e < table.start[row + 1]; ++e)
            for (Offset f = e; f < table.start[row + 1]; ++f)
                if (table.column[e] == table.column[f]) expected += value[e] * value[f];
    expect_near("gram", trace, expected, 1e-9);
}

template <class T>
void check_coordinate_passes() {
    const int64_t rank = whole(1, 21);
    const int64_t n = whole(1, 70);
    const bool shared = whole(0, 1);
    const int64_t own = shared ? 1 : n;
    std::vector<T> H(rank * rank * own);
    for (int64_t c = 0; c < own; ++c) {
        const auto D = normal<T>((rank + 3) * rank);
        for (int64_t i = 0; i < rank; ++i)
            for (int64_t j = 0; j < rank; ++j)
                for (int64_t e = 0; e < rank + 3; ++e)
                    H[(i * rank + j) * own + c] += D[e * rank + i] * D[e * rank + j];
    }
    const auto target = normal<T>(rank * n);
    std::vector<T> B = normal<T>(rank * n);
    for (T& b : B) b = std::abs(b);
    std::vector<T> expected = B;
    std::vector<T> memory(coordinate_passes_memory<T>(rank));
    coordinate_passes<T>(rank, n, H.data(), shared, target.data(), 2, T(0), T(1e-18),
                         memory.data(), B.data());
    for (int64_t c = 0; c < n; ++c) {
        const int64_t at = shared ? 0 : c;
        for (int64_t k = 0; k < 2; ++k) {
            for (int64_t i = 0; i < rank; ++i) {
                T gradient = -target[i * n + c];
                for (int64_t j = 0; j < rank; ++j)
                    gradient += H[(i * rank + j) * own + at] * expected[j * n + c];
                const T moved = expected[i * n + c] - gradient / H[(i * rank + i) * own + at];
                expected[i * n + c] = moved < 0 ? 0 : moved;
            }
        }
        for (int64_t i = 0; i < rank; ++i)
            expect_near("coordinate_passes", B[i * n + c], expected[i * n + c], tolerance<T>());
    }
}

template <class T>
void check_model_steps() {
    const int64_t rank = whole(1, 21);
    const int64_t n = whole(1, 70);
    std::vector<T> H(rank * rank * n);
    std::vector<T> sums;
    for (int64_t i = 0; i < rank; ++i) {
        for (int64_t j = i; j < rank; ++j) {
            for (int64_t c = 0; c < n; ++c) {
                // diagonally dominant, so that it is positive definite
                const T value = i == j ? T(rank) + 1 : T(whole(-9, 9)) / 10;
                H[(i * rank + j) * n + c] = value;
                H[(j * rank + i) * n + c] = value;
                sums.push_back(value);
            }
        }
    }
    sums.shrink_to_fit();
    const auto gradient = normal<T>(rank * n);
    std::vector<T> B = normal<T>(rank * n);
    for (T& b : B) b = std::abs(b);
    const std::vector<T> old = B;
    std::vector<T> promise(n);
    std::vector<T> curvature(n);
    std::vector<T> memory(model_steps_memory<T>(rank));
    model_steps<T>(rank, n, sums.data(), gradient.data(), 2, T(0), T(1e-18), memory.data(),
                   B.data(), promise.data(), curvature.data());
    for (int64_t c = 0; c < n; ++c) {
        std::vector<T> step(rank);
        for (int64_t k = 0; k < 2; ++k) {
            for (int64_t i = 0; i < rank; ++i) {
                T slope = gradient[i * n + c];
                for (int64_t j = 0; j < rank; ++j) slope += H[(i * rank + j) * n + c] * step[j];
                const T moved = step[i] - slope / H[(i * rank + i) * n + c];
                step[i] = moved < -old[i * n + c] ? -old[i * n + c] : moved;
            }
        }
        T fall = 0;
        T bend = 0;
        for (int64_t i = 0; i < rank; ++i) {
            fall -= step[i] * gradient[i * n + c];
            for (int64_t j = 0; j < rank; ++j)
                bend += step[i] * H[(i * rank + j) * n + c] * step[j];
            expect_near("model_steps", B[i * n + c], step[i], tolerance<T>());
        }
        expect_near("promise", promise[c], fall, tolerance<T>());
        expect_near("curvature", curvature[c], bend, tolerance<T>());
    }
}

template <class Offset>
void check_sums_of_columns() {
    const Table<Offset> table;
    const int64_t width = whole(1, 12);
    const int64_t n_pairs = width * (width + 1) / 2;
    const int64_t n = table.n_columns;
    const auto D = normal<double>(table.n_rows * width);
    const auto g = normal<double>(table.column.size());
    const auto r = normal<double>(table.column.size());
    auto weight = normal<double>(table.n_rows);
    for (double& w : weight) w = std::abs(w);
    std::vector<double> totals(3), offsets(n), gram(n * n), equations(n * n_pairs), right(n * width);
    std::vector<double> memory(n_pairs);
    const bool with_gram = whole(0, 1);
    const ColumnSums sums{totals.data(), offsets.data(), with_gram ? gram.data() : nullptr,
                          equations.data(), right.data()};
    sums_of_columns(table.rows(0, table.n_rows), g.data(), r.data(), r.data(), D.data(), width,
                    weight.data(), n, memory.data(), sums);
    double squares = 0;
    double equation = 0;
    double product = 0;
    for (int64_t row = 0; row < table.n_rows; ++row) {
        for (Offset e = table.start[row]; e < table.start[row + 1]; ++e) {
            squares += weight[row] * g[e] * g[e];
            if (table.column[e] != 0) continue;
            equation += weight[row] * D[row * width] * D[row * width + width - 1];
            product += weight[row] * r[e] * D[row * width + width - 1];
        }
    }
    expect_near("squares", totals[0], squares, 1e-9);
    expect_near("equations", equations[width - 1], equation, 1e-9);
    expect_near("right", right[width - 1], product, 1e-9);
}

template <class T, class Offset>
void check() {
    check_entries<T, Offset>();
    check_solve_rows<T, Offset>();
}

}  // namespace

int main() {
    for (int round = 0; round < 60; ++round) {
        check<float, int32_t>();
        check<float, int64_t>();
        check<double, int32_t>();
        check<double, int64_t>();
        check_gram<int32_t>();
        check_gram<int64_t>();
        check_sums_of_columns<int32_t>();
        check_sums_of_columns<int64_t>();
        check_coordinate_passes<float>();
        check_coordinate_passes<double>();
        check_model_steps<float>();
        check_model_steps<double>();
    }
    if (n_wrong) return 1;
    std::puts("all loops agree with plain ones");
    return 0;
}
