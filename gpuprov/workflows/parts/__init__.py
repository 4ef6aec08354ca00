"""Parts of stories of one host that make documents of what they collect, and so cannot be on a floor below."""
