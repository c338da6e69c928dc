"""Shows results: text for people, JUnit for CI systems, Markdown for pages. Pure: every function gives text back."""
