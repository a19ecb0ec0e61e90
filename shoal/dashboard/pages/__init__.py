"""One file per page: the data that its script in `static/pages/` asks for. A page is a function of Shown to routes."""
