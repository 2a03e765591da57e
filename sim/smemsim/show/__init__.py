"""Pictures: terminal views, SVG and pages."""
