import http from 'node:http';

/** Plain HTTP over one keep-alive connection. */
export class HttpClient {
  #agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  #port;

  constructor(port) {
    this.#port = port;
  }

  async getStatus(path) {
    return (await this.#send('GET', path)).status;
  }

  async getText(path) {
    return (await this.#send('GET', path)).text;
  }

  /** The parsed answer; anything but 200 rejects. */
  async postJson(path, body) {
    const { status, text } = await this.#send('POST', path, JSON.stringify(body));
    if (status !== 200) throw new Error(`POST ${path}: ${status} ${text}`);
    return JSON.parse(text);
  }

  async delete(path) {
    return (await this.#send('DELETE', path)).status;
  }

  close() {
    this.#agent.destroy();
  }

  #send(method, path, body) {
    const headers = body === undefined ? {} : { 'content-type': 'application/json', 'content-length': body.length };
    const options = { agent: this.#agent, host: '127.0.0.1', port: this.#port, method, path, headers };
    return new Promise((resolve, reject) => {
      const request = http.request(options, (response) => {
        let text = '';
        response.setEncoding('utf8');
        response.on('data', (chunk) => (text += chunk));
        response.on('end', () => resolve({ status: response.statusCode, text }));
      });
      request.on('error', reject);
      request.end(body);
    });
  }
}
