"""Sound and pictures as text, through a model of OpenAI's API (V0 §6.5). Everything is printed."""

import base64
import mimetypes
import os

DESCRIBE = "What is in this image?"


def _client():
    try:
        from openai import OpenAI
    except ImportError as error:
        raise RuntimeError("openai is not installed in this kernel: run %pip install openai") from error
    key = os.environ.get("OPENAI_API_KEY") or os.environ.get("SANDBOX_ENV_OPENAI_API_KEY")
    return OpenAI(api_key=key, base_url=os.environ.get("OPENAI_BASE_URL") or None)


def _describe(picture, media_type, task):
    data = base64.b64encode(picture).decode()
    content = [
        {"type": "text", "text": task},
        {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{data}"}},
    ]
    answer = _client().chat.completions.create(
        model=os.environ.get("OPENAI_MODEL", "gpt-4o"),
        messages=[{"role": "user", "content": content}],
        max_tokens=int(os.environ.get("MAX_TOKEN", "500")),
    )
    return answer.choices[0].message.content


def parse_audio(file_path, model="whisper-1"):
    """Prints what is said in an audio file."""
    print(f"[Transcribing audio file from {file_path}]")
    try:
        with open(file_path, "rb") as file:
            print(_client().audio.translations.create(model=model, file=file).text)
    except Exception as error:
        print(f"Error transcribing audio file: {error}")


def parse_image(file_path, task=DESCRIBE):
    """Prints a description of a picture, or the answer to a question about it."""
    print(f"[Reading image file from {file_path}]")
    try:
        with open(file_path, "rb") as file:
            print(_describe(file.read(), mimetypes.guess_type(file_path)[0] or "image/jpeg", task))
    except Exception as error:
        print(f"Error with the request: {error}")


def parse_video(file_path, task=DESCRIBE, frame_interval=30):
    """Prints descriptions of frames of a video."""
    print(f"[Processing video file from {file_path} with frame interval {frame_interval}]")
    try:
        for number, frame in _frames(file_path, frame_interval):
            print(f"Video {file_path} frame {number}: {_describe(frame, 'image/jpeg', task)}")
    except Exception as error:
        print(f"Error with the request: {error}")


def _frames(path, interval):
    try:
        import cv2
    except ImportError as error:
        raise RuntimeError("opencv is not installed in this kernel: run %pip install opencv-python-headless") from error
    video = cv2.VideoCapture(path)
    number = 0
    while True:
        is_read, frame = video.read()
        if not is_read:
            return
        if number % interval == 0:
            yield number, cv2.imencode(".jpg", frame)[1].tobytes()
        number += 1
