"""The page: what happens on the GPUs now and at any earlier moment, in a browser.

`web` has the sources (Svelte and TypeScript), `static` what is built from them (`make page`). Only the built files are installed; the API
serves them, and running Headrace takes no Node.js.
"""
