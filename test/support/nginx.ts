import { type ChildProcess, spawn } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from './free-port.ts'
import { end, ready } from './ready.ts'

/** Debian's nginx in front of a gateway, with the fields and the keep-alive of ingress-nginx. */
export class Nginx {
  readonly url: string
  readonly #process: ChildProcess

  private constructor(url: string, started: ChildProcess) {
    this.url = url
    this.#process = started
  }

  /** @param directives of nginx, such as `proxy_read_timeout 65s`, as annotations of an Ingress become them */
  static async start(
    directory: string,
    gatewayUrl: string,
    { directives, keepAliveSeconds }: { directives: readonly string[]; keepAliveSeconds: number },
  ): Promise<Nginx> {
    const port = await freePort()
    const file = join(directory, 'nginx.conf')
    const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
      name => `${name}_temp_path ${join(directory, name)};`,
    )
    await writeFile(
      file,
      `daemon off; master_process off; pid ${join(directory, 'pid')}; error_log ${join(directory, 'errors')};
events {}
http {
  access_log off; ${temporary.join(' ')}
  map $http_upgrade $connection_upgrade { default upgrade; '' ''; }
  map $http_x_request_id $req_id { default $http_x_request_id; '' $request_id; }
  upstream gateways { server ${new URL(gatewayUrl).host}; keepalive 320; keepalive_timeout ${keepAliveSeconds}s; }
  server {
    listen 127.0.0.1:${port};
    location / {
      ${directives.map(directive => `${directive};`).join(' ')}
      proxy_http_version 1.1; proxy_set_header Host $http_host;
      proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $connection_upgrade;
      proxy_set_header X-Request-ID $req_id; proxy_set_header X-Real-IP $remote_addr;
      proxy_set_header X-Forwarded-For $remote_addr; proxy_set_header X-Forwarded-Host $http_host;
      proxy_set_header X-Forwarded-Proto $scheme;
      proxy_set_header X-Original-Forwarded-For $http_x_forwarded_for;
      proxy_pass http://gateways;
    }
  }
}
`,
    )
    const started = spawn('nginx', ['-p', directory, '-c', file], { stdio: ['ignore', 'ignore', 'inherit'] })
    const url = `http://127.0.0.1:${port}`
    return ready(new Nginx(url, started), started, () =>
      fetch(url).then(
        () => true,
        () => false,
      ),
    )
  }

  async stop(): Promise<void> {
    await end(this.#process, 'SIGTERM')
  }
}
