"""A small agent: asks a model over OPENAI_BASE_URL, runs the commands that it calls for, ends at a plain answer."""

import json
import os
import subprocess
import sys
import urllib.request

BASH = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "Run a command.",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
    },
}


def ask(messages, stream=False):
    body = {"model": "some-model", "messages": messages, "tools": [BASH], "stream": stream}
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]},
    )
    with urllib.request.urlopen(request) as answer:
        if not stream:
            return json.load(answer)["choices"][0]["message"]
        message = {"role": "assistant", "content": ""}
        for line in answer:
            if line.startswith(b"data: {"):
                for choice in json.loads(line[6:])["choices"]:
                    message.update(choice["delta"])
        return message


def main():
    stream = "--stream" in sys.argv
    task = sys.argv[1] if len(sys.argv) > 1 and sys.argv[1] != "--stream" else sys.stdin.read()
    messages = [{"role": "system", "content": "You have a shell."}, {"role": "user", "content": task}]
    while True:
        message = ask(messages, stream)
        messages.append(message)
        if not message.get("tool_calls"):
            print("The model says:", message["content"])
            return
        for call in message["tool_calls"]:
            command = json.loads(call["function"]["arguments"])["command"]
            done = subprocess.run(command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            said = json.dumps({"exit_code": done.returncode, "output": done.stdout.decode("utf-8", "replace")})
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": said})


main()
