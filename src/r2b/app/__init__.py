"""The app: a page on this machine that audits a table and solves at every move of a slider.

Starlette and uvicorn are imported when the app is started, not before.
"""

from r2b.app.serving import create_app, serve

__all__ = ["create_app", "serve"]
