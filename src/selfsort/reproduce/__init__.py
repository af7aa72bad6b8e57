"""The paper's tables and figures: one module per experiment, trainings that all share, results as
data, one page.
"""

EXPERIMENTS = {
    "table": "accuracy beside all systems of the paper's table, with its curve and other readings",
    "training-tsne": (
        "t-SNE of F for 2000 untransformed images as training goes on, with the accuracy"
    ),
    "dimensions": (
        "mean activity of each dimension of F, Z and softmax(Z), and the norm of the "
        "weights behind it"
    ),
    "latent-width": "accuracy against the width of F, 128 to 4096",
    "spaces": "t-SNE of F, Z and softmax(Z) side by side, and k-means on each",
    "graph": "the graphs of 500 images as training goes on: edges and connected components",
    "clusters-k": "example images of each cluster for k = 7 and k = 20",
    "transformations": "accuracy and t-SNE for other sets and kinds of transformations",
    "gar-terms": "original against modified affinity and balance as the number of parents grows",
}
"""What each experiment shows; its module has the same name."""
