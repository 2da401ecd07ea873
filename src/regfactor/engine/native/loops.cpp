// Compiled with more instructions than the module: nothing here may be shared with module.cpp, so
// no containers of the standard library.
#include "loops.h"

#include <cmath>
#include <limits>

namespace {

constexpr int64_t CHUNK = 64;  // entries whose rows of D are held next to each other
constexpr int64_t HEIGHT = 4;  // rows of a tile of the matrix that stays in registers
constexpr int64_t SIDE = 4;    // vectors of columns that coordinate passes treat at once

// 32 bytes of numbers, read from and written to any address
template <class T>
struct Lanes {
    typedef T Vector __attribute__((vector_size(32), aligned(sizeof(T)), may_alias));
    static constexpr int64_t N = 32 / sizeof(T);
};

template <class T>
auto load(const T* from) {
    return *reinterpret_cast<const typename Lanes<T>::Vector*>(from);
}

template <class T, class Vector>
void store(T* to, Vector values) {
    *reinterpret_cast<typename Lanes<T>::Vector*>(to) = values;
}

template <class T>
T dot(const T* a, const T* b, int64_t length) {
    constexpr int64_t N = Lanes<T>::N;
    auto first = load(a) * load(b);
    auto second = load(a + N) * load(b + N);
    for (int64_t j = 2 * N; j < length; j += 2 * N) {
        first += load(a + j) * load(b + j);
        second += load(a + j + N) * load(b + j + N);
    }
    first += second;
    T sum = 0;
    for (int64_t l = 0; l < N; ++l) sum += first[l];
    return sum;
}

// H += sum over entries of weighted d' d, in the upper triangle and a little below it
template <class T>
void add_products(T* H, const T* weighted, const T* d, int64_t count, int64_t stride) {
    constexpr int64_t N = Lanes<T>::N;
    for (int64_t i = 0; i < stride; i += HEIGHT) {
        for (int64_t j = i / (2 * N) * (2 * N); j < stride; j += 2 * N) {
            typename Lanes<T>::Vector left[HEIGHT] = {};
            typename Lanes<T>::Vector right[HEIGHT] = {};
            for (int64_t e = 0; e < count; ++e) {
                const auto first = load(d + e * stride + j);
                const auto second = load(d + e * stride + j + N);
                const T* w = weighted + e * stride + i;
                for (int64_t q = 0; q < HEIGHT; ++q) {
                    left[q] += w[q] * first;
                    right[q] += w[q] * second;
                }
            }
            for (int64_t q = 0; q < HEIGHT; ++q) {
                T* h = H + (i + q) * stride + j;
                store(h, load(h) + left[q]);
                store(h + N, load(h + N) + right[q]);
            }
        }
    }
}

// to[j] -= factor * from[j] for all j >= begin, and a few before it
template <class T>
void subtract(T* to, const T* from, T factor, int64_t begin, int64_t stride) {
    constexpr int64_t N = Lanes<T>::N;
    for (int64_t j = begin / N * N; j < stride; j += N)
        store(to + j, load(to + j) - factor * load(from + j));
}

// H = R'R in the upper triangle; false if H is not positive definite
template <class T>
bool factorize(T* H, int64_t rank, int64_t stride) {
    for (int64_t i = 0; i < rank; ++i) {
        T* row = H + i * stride;
        const T pivot = row[i];
        if (!(pivot > 0) || !std::isfinite(pivot)) return false;
        const T scale = 1 / std::sqrt(pivot);
        for (int64_t j = i; j < stride; ++j) row[j] *= scale;
        for (int64_t k = i + 1; k < rank; ++k) subtract(H + k * stride, row, row[k], k, stride);
    }
    return true;
}

// x <- (R'R)^-1 x; rows of R end with zeros
template <class T>
void substitute(const T* R, T* x, int64_t rank, int64_t stride) {
    for (int64_t i = 0; i < rank; ++i) {
        const T value = x[i] / R[i * stride + i];
        for (int64_t j = i + 1; j < rank; ++j) x[j] -= R[i * stride + j] * value;
        x[i] = value;
    }
    for (int64_t i = rank; i-- > 0;) {
        T sum = 0;
        for (int64_t j = i + 1; j < rank; ++j) sum += R[i * stride + j] * x[j];
        x[i] = (x[i] - sum) / R[i * stride + i];
    }
}

// One pass over the coordinates of SIDE vectors of columns, which b and target hold by coordinates.
// The entries of H of a coordinate pair are one number, or a number for each column.
template <class T, bool shared>
void pass(int64_t rank, const T* H, int64_t stride, const T* target, T noise, T smallest, T* b) {
    constexpr int64_t N = Lanes<T>::N;
    typedef typename Lanes<T>::Vector Vector;
    const Vector none = {};
    for (int64_t i = 0; i < rank; ++i) {
        Vector gradient[SIDE] = {};
        for (int64_t j = 0; j < rank; ++j) {
            const T* h = H + (i * rank + j) * stride;
            for (int64_t q = 0; q < SIDE; ++q) {
                if constexpr (shared)
                    gradient[q] += *h * load(b + (j * SIDE + q) * N);
                else
                    gradient[q] += load(h + q * N) * load(b + (j * SIDE + q) * N);
            }
        }
        const T* curvature = H + (i * rank + i) * stride;
        for (int64_t q = 0; q < SIDE; ++q) {
            T* place = b + (i * SIDE + q) * N;
            const auto aim = load(target + (i * SIDE + q) * N);
            Vector g = gradient[q] - aim;
            const Vector size = g < 0 ? -g : g;
            const Vector limit = noise * (aim < 0 ? -aim : aim);
            g = size <= limit ? none : g;
            if constexpr (shared) {
                g /= *curvature > smallest ? *curvature : smallest;
            } else {
                const Vector bent = load(curvature + q * N);
                g /= bent > smallest ? bent : none + smallest;
            }
            const Vector moved = load(place) - g;
            store(place, moved < 0 ? none : moved);
        }
    }
}

// to[i, 0..width) = from[i, first..first + count), for all rows i; the rest is filled with zeros
template <class T>
void gather(const T* from, int64_t n_rows, int64_t stride, int64_t first, int64_t count,
            int64_t width, T* to) {
    for (int64_t i = 0; i < n_rows; ++i) {
        for (int64_t l = 0; l < count; ++l) to[i * width + l] = from[i * stride + first + l];
        for (int64_t l = count; l < width; ++l) to[i * width + l] = 0;
    }
}

}  // namespace

template <class T, class Offset>
void entries(Rows<Offset> rows, const T* codes, const T* components, int64_t stride, T* out) {
    for (int64_t row = rows.first; row < rows.last; ++row) {
        const T* a = codes + row * stride;
        for (Offset e = rows.start[row]; e < rows.start[row + 1]; ++e)
            out[e] = dot(a, components + rows.column[e] * stride, stride);
    }
}

template <class T>
int64_t solve_rows_memory(int64_t stride) {
    return (stride + 2 * CHUNK) * stride;
}

template <class T, class Offset>
int64_t solve_rows(Rows<Offset> rows, const T* weight, const T* D, int64_t stride, const T* ridge,
                   int64_t rank, const T* right, T* memory, T* out) {
    T* H = memory;
    T* d = H + stride * stride;
    T* weighted = d + CHUNK * stride;
    int64_t failed = 0;
    for (int64_t row = rows.first; row < rows.last; ++row) {
        for (int64_t i = 0; i < stride * stride; ++i) H[i] = 0;
        const Offset end = rows.start[row + 1];
        for (Offset e = rows.start[row]; e < end; e += CHUNK) {
            const int64_t count = end - e < CHUNK ? end - e : CHUNK;
            for (int64_t q = 0; q < count; ++q) {
                const T* from = D + rows.column[e + q] * stride;
                const T w = weight[e + q];
                for (int64_t j = 0; j < stride; ++j) {
                    d[q * stride + j] = from[j];
                    weighted[q * stride + j] = w * from[j];
                }
            }
            add_products(H, weighted, d, count, stride);
        }
        T trace = 0;
        for (int64_t i = 0; i < rank; ++i) {
            H[i * stride + i] += ridge[i];
            trace += H[i * stride + i];
        }
        const T jitter = std::numeric_limits<T>::epsilon() * trace +
                         std::sqrt(std::numeric_limits<T>::min());
        for (int64_t i = 0; i < rank; ++i) H[i * stride + i] += jitter;
        T* x = out + row * stride;
        for (int64_t i = 0; i < rank; ++i) x[i] = right[row * stride + i];
        if (factorize(H, rank, stride)) {
            substitute(H, x, rank, stride);
        } else {
            for (int64_t i = 0; i < rank; ++i) x[i] = std::numeric_limits<T>::quiet_NaN();
            ++failed;
        }
    }
    return failed;
}

template <class Offset>
void gram(Rows<Offset> rows, const double* value, int64_t n_columns, double* gram) {
    for (int64_t row = rows.first; row < rows.last; ++row) {
        const Offset end = rows.start[row + 1];
        for (Offset e = rows.start[row]; e < end; ++e) {
            const int64_t a = rows.column[e];
            const double factor = value[e];
            for (Offset f = e; f < end; ++f) {
                const int64_t b = rows.column[f];
                const int64_t place = a < b ? a * n_columns + b : b * n_columns + a;
                gram[place] += factor * value[f];
            }
        }
    }
}

template <class Offset>
void sums_of_columns(Rows<Offset> rows, const double* g, const double* r, const double* x,
                     const double* D, int64_t width, const double* weight, int64_t n_columns,
                     double* memory, ColumnSums sums) {
    const int64_t n_pairs = width * (width + 1) / 2;
    for (int64_t row = rows.first; row < rows.last; ++row) {
        const double w = weight[row];
        const double* d = D + row * width;
        double* pair = memory;
        for (int64_t i = 0; i < width; ++i)
            for (int64_t j = i; j < width; ++j) *pair++ = w * d[i] * d[j];
        const Offset end = rows.start[row + 1];
        // of one row: short sums, whose rounding errors are small
        double squares = 0;
        double product = 0;
        double size = 0;
        for (Offset e = rows.start[row]; e < end; ++e) {
            const int64_t a = rows.column[e];
            squares += g[e] * g[e];
            product += g[e] * r[e];
            size += r[e] * r[e];
            sums.offsets[a] += w * g[e];
            double* equations = sums.equations + a * n_pairs;
            for (int64_t p = 0; p < n_pairs; ++p) equations[p] += memory[p];
            double* right = sums.right + a * width;
            const double weighted = w * x[e];
            for (int64_t i = 0; i < width; ++i) right[i] += weighted * d[i];
            if (!sums.gram) continue;
            const double factor = w * g[e];
            for (Offset f = e; f < end; ++f) {
                const int64_t b = rows.column[f];
                const int64_t place = a < b ? a * n_columns + b : b * n_columns + a;
                sums.gram[place] += factor * g[f];
            }
        }
        sums.totals[0] += w * squares;
        sums.totals[1] += w * product;
        sums.totals[2] += w * size;
    }
}

template <class T>
int64_t coordinate_passes_memory(int64_t rank) {
    return (rank + 2) * rank * SIDE * Lanes<T>::N;
}

template <class T>
void coordinate_passes(int64_t rank, int64_t n_columns, const T* H, bool shared, const T* target,
                       int64_t passes, T noise, T smallest, T* memory, T* B) {
    constexpr int64_t WIDTH = SIDE * Lanes<T>::N;
    T* b = memory;
    T* aim = b + rank * WIDTH;
    T* own = aim + rank * WIDTH;
    for (int64_t first = 0; first < n_columns; first += WIDTH) {
        const int64_t count = n_columns - first < WIDTH ? n_columns - first : WIDTH;
        gather(B, rank, n_columns, first, count, WIDTH, b);
        gather(target, rank, n_columns, first, count, WIDTH, aim);
        if (!shared) gather(H, rank * rank, n_columns, first, count, WIDTH, own);
        for (int64_t k = 0; k < passes; ++k) {
            if (shared)
                pass<T, true>(rank, H, 1, aim, noise, smallest, b);
            else
                pass<T, false>(rank, own, WIDTH, aim, noise, smallest, b);
        }
        for (int64_t i = 0; i < rank; ++i)
            for (int64_t l = 0; l < count; ++l) B[i * n_columns + first + l] = b[i * WIDTH + l];
    }
}

template <class T>
int64_t model_steps_memory(int64_t rank) {
    return (rank + 4) * rank * SIDE * Lanes<T>::N;
}

template <class T>
void model_steps(int64_t rank, int64_t n_columns, const T* sums, const T* gradient, int64_t passes,
                 T noise, T smallest, T* memory, T* B, T* promise, T* curvature) {
    constexpr int64_t WIDTH = SIDE * Lanes<T>::N;
    const int64_t size = rank * WIDTH;
    T* old = memory;
    T* b = old + size;
    T* slope = b + size;
    T* aim = slope + size;
    T* H = aim + size;
    for (int64_t first = 0; first < n_columns; first += WIDTH) {
        const int64_t count = n_columns - first < WIDTH ? n_columns - first : WIDTH;
        gather(B, rank, n_columns, first, count, WIDTH, old);
        gather(gradient, rank, n_columns, first, count, WIDTH, slope);
        const T* pair = sums + first;
        for (int64_t i = 0; i < rank; ++i) {
            for (int64_t j = i; j < rank; ++j, pair += n_columns) {
                T* upper = H + (i * rank + j) * WIDTH;
                T* lower = H + (j * rank + i) * WIDTH;
                for (int64_t l = 0; l < WIDTH; ++l) upper[l] = l < count ? pair[l] : 0;
                for (int64_t l = 0; l < WIDTH; ++l) lower[l] = upper[l];
            }
        }
        for (int64_t i = 0; i < rank; ++i) {
            T* to = aim + i * WIDTH;
            for (int64_t l = 0; l < WIDTH; ++l) to[l] = -slope[i * WIDTH + l];
            for (int64_t j = 0; j < rank; ++j) {
                const T* h = H + (i * rank + j) * WIDTH;
                for (int64_t l = 0; l < WIDTH; ++l) to[l] += h[l] * old[j * WIDTH + l];
            }
        }
        for (int64_t i = 0; i < size; ++i) b[i] = old[i];
        for (int64_t k = 0; k < passes; ++k)
            pass<T, false>(rank, H, WIDTH, aim, noise, smallest, b);
        for (int64_t i = 0; i < size; ++i) b[i] -= old[i];
        T falls[WIDTH] = {};
        T bends[WIDTH] = {};
        for (int64_t i = 0; i < rank; ++i) {
            const T* s = b + i * WIDTH;
            for (int64_t l = 0; l < WIDTH; ++l) falls[l] -= s[l] * slope[i * WIDTH + l];
            for (int64_t j = 0; j < rank; ++j) {
                const T* h = H + (i * rank + j) * WIDTH;
                for (int64_t l = 0; l < WIDTH; ++l) bends[l] += s[l] * h[l] * b[j * WIDTH + l];
            }
        }
        for (int64_t l = 0; l < count; ++l) {
            promise[first + l] = falls[l];
            curvature[first + l] = bends[l];
            for (int64_t i = 0; i < rank; ++i) B[i * n_columns + first + l] = b[i * WIDTH + l];
        }
    }
}

#define INSTANTIATE(T, Offset)                                                                     \
    template void entries<T, Offset>(Rows<Offset>, const T*, const T*, int64_t, T*);               \
    template int64_t solve_rows<T, Offset>(Rows<Offset>, const T*, const T*, int64_t, const T*,    \
                                           int64_t, const T*, T*, T*);

template int64_t solve_rows_memory<float>(int64_t);
template int64_t solve_rows_memory<double>(int64_t);
template int64_t coordinate_passes_memory<float>(int64_t);
template int64_t coordinate_passes_memory<double>(int64_t);
template void coordinate_passes<float>(int64_t, int64_t, const float*, bool, const float*, int64_t,
                                       float, float, float*, float*);
template void coordinate_passes<double>(int64_t, int64_t, const double*, bool, const double*,
                                        int64_t, double, double, double*, double*);
template int64_t model_steps_memory<float>(int64_t);
template int64_t model_steps_memory<double>(int64_t);
template void model_steps<float>(int64_t, int64_t, const float*, const float*, int64_t, float,
                                 float, float*, float*, float*, float*);
template void model_steps<double>(int64_t, int64_t, const double*, const double*, int64_t, double,
                                  double, double*, double*, double*, double*);
template void sums_of_columns<int32_t>(Rows<int32_t>, const double*, const double*, const double*,
                                       const double*, int64_t, const double*, int64_t, double*,
                                       ColumnSums);
template void sums_of_columns<int64_t>(Rows<int64_t>, const double*, const double*, const double*,
                                       const double*, int64_t, const double*, int64_t, double*,
                                       ColumnSums);
template void gram<int32_t>(Rows<int32_t>, const double*, int64_t, double*);
template void gram<int64_t>(Rows<int64_t>, const double*, int64_t, double*);
INSTANTIATE(float, int32_t)
INSTANTIATE(float, int64_t)
INSTANTIATE(double, int32_t)
INSTANTIATE(double, int64_t)
