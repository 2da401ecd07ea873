// Loops over the stored entries of a sparse table, for which numpy must gather rows of factors.
//
// Every function works on rows first..last-1 and writes output of these rows alone, or adds to sums
// that its caller owns, so that calls on disjoint ranges may run at once. Nothing is checked here: offsets rise, columns are in range
// and lengths agree because the wrappers of kernels.py make sure of it.
#pragma once

#include <cstdint>

// Rows of factors are padded with zeros to a multiple of this many bytes.
constexpr int64_t PADDING = 64;

// A table by rows: the entries of row i stand at start[i]..start[i + 1] - 1.
template <class Offset>
struct Rows {
    int64_t first;
    int64_t last;
    const Offset* start;
    const int32_t* column;
};

// out_e = <codes of the row of e, components of the column of e>; both have rows of `stride`.
template <class T, class Offset>
void entries(Rows<Offset> rows, const T* codes, const T* components, int64_t stride, T* out);

// Numbers of memory that solve_rows needs.
template <class T>
int64_t solve_rows_memory(int64_t stride);

// (sum over entries e of row i of weight_e d_e d_e' + diag(ridge) + jitter) out_i = right_i, where
// d_e is the row of D of the column of e. D, right and out have rows of `stride`. Rows whose matrix
// is not positive definite are filled with NaN; returns their number.
template <class T, class Offset>
int64_t solve_rows(Rows<Offset> rows, const T* weight, const T* D, int64_t stride, const T* ridge,
                   int64_t rank, const T* right, T* memory, T* out);

// gram[a, b] += sum over rows of value_a value_b for columns a <= b; gram has rows of `n_columns`.
// Only the upper triangle is written. Values are of entries, whose columns may stand in any order.
template <class Offset>
void gram(Rows<Offset> rows, const double* value, int64_t n_columns, double* gram);

// Numbers of memory that coordinate_passes needs.
template <class T>
int64_t coordinate_passes_memory(int64_t rank);

// Lowers b'H b / 2 - target'b over b >= 0 for the columns b of B, in passes over their coordinates.
// H is rank x rank, or rank x rank x n_columns unless `shared`; target and B are rank x n_columns.
// A gradient below `noise` times the target counts as zero, a curvature below `smallest` as it.
template <class T>
void coordinate_passes(int64_t rank, int64_t n_columns, const T* H, bool shared, const T* target,
                       int64_t passes, T noise, T smallest, T* memory, T* B);

// Numbers of memory that model_steps needs.
template <class T>
int64_t model_steps_memory(int64_t rank);

// Replaces the columns b of B by steps s that lower s'H s / 2 + gradient's over b + s >= 0, in
// passes as above. Row p of `sums` (rank (rank + 1) / 2 x n_columns) holds the entries (i, j) of
// the matrices H, i <= j, row by row; gradient and B are rank x n_columns. Writes -gradient's and
// s'H s of every column.
template <class T>
void model_steps(int64_t rank, int64_t n_columns, const T* sums, const T* gradient, int64_t passes,
                 T noise, T smallest, T* memory, T* B, T* promise, T* curvature);

// What a pass over entries adds up; n_columns rows in all but the totals.
struct ColumnSums {
    double* totals;     // sum w g^2, sum w g r, sum w r^2
    double* offsets;    // sum w g
    double* gram;       // as above, of sqrt(w) g; or null
    double* equations;  // sum w d_i d_j for i <= j, width (width + 1) / 2 numbers
    double* right;      // sum w x d_i, width numbers
};

// Adds up, over entries of residuals g and numbers r and x, products with the row of D (n_rows x
// width) of their row, whose weight is w. Memory has width (width + 1) / 2 numbers.
template <class Offset>
void sums_of_columns(Rows<Offset> rows, const double* g, const double* r, const double* x,
                     const double* D, int64_t width, const double* weight, int64_t n_columns,
                     double* memory, ColumnSums sums);
