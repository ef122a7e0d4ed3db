"""Expectiles that cannot cross: the first margin is the lowest expectile, the others make the gaps above it.

prediction[0] = margin[0], prediction[k] = prediction[k - 1] + LEAST_GAP + ln(1 + e**margin[k]), as in XGBoost 3.3.
"""

import numpy as np
from numba import float32, float64, uint64

from arboost.kernels.elementary import exp, log1p
from arboost.kernels.jit import kernel, scalar

LEAST_GAP = 1e-6


@scalar
def softplus(x):
    """ln(1 + e**x)."""
    tail = log1p(exp(-abs(x)))
    return x + tail if x > 0.0 else tail


@kernel
def expectile_gradient(margin, label, alpha, g, h, start, stop):
    """Derivatives of the sum over k of w_k (prediction_k - label)**2 / 2, w_k = 1 - alpha_k above the label.

    margin is (n_rows, K), g and h are (K, n_rows). Gap k moves every prediction from k on; the hessian is the
    Gauss-Newton one, which has no term of the link's own curvature.
    """
    n_alphas = uint64(margin.shape[1])
    for i in range(uint64(start), uint64(stop)):
        prediction = float64(margin[i, uint64(0)])
        for k in range(n_alphas):
            if k > uint64(0):
                prediction += LEAST_GAP + softplus(float64(margin[i, k]))
            d = prediction - float64(label[i])
            w = 1.0 - alpha[k] if d >= 0.0 else alpha[k]
            g[k, i] = float32(w * d)
            h[k, i] = float32(w)
        g_sum = 0.0
        h_sum = 0.0
        for back in range(n_alphas):
            k = n_alphas - uint64(1) - back
            g_sum += float64(g[k, i])
            h_sum += float64(h[k, i])
            slope = 1.0 / (1.0 + exp(-float64(margin[i, k]))) if k > uint64(0) else 1.0
            g[k, i] = float32(slope * g_sum)
            h[k, i] = float32(slope * slope * h_sum)


@kernel
def transform_expectiles(margin, out, start, stop):
    """Predictions from margins, both (n_rows, K) float32."""
    for i in range(uint64(start), uint64(stop)):
        prediction = float64(margin[i, uint64(0)])
        for k in range(uint64(margin.shape[1])):
            if k > uint64(0):
                prediction += LEAST_GAP + softplus(float64(margin[i, k]))
            out[i, k] = float32(prediction)


def asymmetric_square(
    pred: np.ndarray, label: np.ndarray, alpha: np.ndarray, values: np.ndarray, start: int, stop: int
) -> None:
    """alpha d**2 for d = label - pred > 0, (1 - alpha) d**2 below: alpha holds one value per row."""
    d = values[: stop - start]
    np.subtract(label[start:stop], pred[start:stop], out=d, dtype=np.float64)
    a = alpha[start:stop]
    weight = np.where(d > 0.0, a, 1.0 - a)
    np.multiply(d, d, out=d)
    np.multiply(d, weight, out=d)
