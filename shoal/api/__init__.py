"""The contracts of Shoal. Read `env`, `fragment`, `policy`, `algorithm`, `worker`, `experiment`, in this order."""
