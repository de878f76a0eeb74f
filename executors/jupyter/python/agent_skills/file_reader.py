"""Documents as text (V0 §6.5). Everything is printed; the libraries are loaded when they are needed."""

import importlib
import logging


def _library(module, package):
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise RuntimeError(f"{package} is not installed in this kernel: run %pip install {package}") from error


def _print_document(kind, path, read):
    print(f"[Reading {kind} file from {path}]")
    try:
        print(read(path).strip())
    except Exception as error:
        print(f"Error reading {kind} file: {error}")


def parse_pdf(file_path):
    """Prints the text of a PDF file, page by page."""
    _print_document("PDF", file_path, _pdf_text)


def _pdf_text(path):
    # What it complains of, and can do without, would stand in the middle of the text.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    reader = _library("pypdf", "pypdf").PdfReader(path)
    return "\n".join(f"@@ Page {number} @@\n{page.extract_text()}\n" for number, page in enumerate(reader.pages, 1))


def parse_docx(file_path):
    """Prints the text of a DOCX file, paragraph by paragraph."""
    _print_document("DOCX", file_path, _docx_text)


def _docx_text(path):
    document = _library("docx", "python-docx").Document(path)
    return "".join(f"@@ Page {number} @@\n{part.text}\n\n" for number, part in enumerate(document.paragraphs, 1))


def parse_latex(file_path):
    """Prints the text of a LaTeX file without its markup."""
    _print_document("LaTex", file_path, _latex_text)


def _latex_text(path):
    converter = _library("pylatexenc.latex2text", "pylatexenc").LatexNodes2Text()
    with open(path, encoding="utf-8", errors="replace") as file:
        return converter.latex_to_text(file.read())


def parse_pptx(file_path):
    """Prints the text of a PowerPoint file, slide by slide."""
    _print_document("PowerPoint", file_path, _pptx_text)


def _pptx_text(path):
    presentation = _library("pptx", "python-pptx").Presentation(path)
    slides = []
    for number, slide in enumerate(presentation.slides, 1):
        texts = [shape.text for shape in slide.shapes if hasattr(shape, "text")]
        slides.append("\n".join([f"@@ Slide {number} @@", *(f"{text}\n" for text in texts)]))
    return "\n".join(slides)
