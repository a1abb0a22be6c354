"""Stamps between two processes that talk often: only what changed is sent; `channels.end` says why that is sound."""
