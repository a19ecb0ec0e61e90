"""Links between workers: sample (`post`/`take`), inference (`ask`/`answer`), parameter (`publish`/`latest`)."""
