"""The app: a page on this machine that opens a table, audits it, and solves again at every move of a slider.

Starlette and uvicorn are imported when the app is started, not before.
"""

from r2b.app.serving import create_app, serve

__all__ = ["create_app", "serve"]
