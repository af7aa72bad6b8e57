"""Clusters of a representation: k-means, spectral, and over several views."""

from selfsort.clustering.kmeans import Assignment, Clustering, cluster
from selfsort.clustering.views import Agreement, agree, consensus, spectral_clusters

__all__ = [
    "Agreement",
    "Assignment",
    "Clustering",
    "agree",
    "cluster",
    "consensus",
    "spectral_clusters",
]
