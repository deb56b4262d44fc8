import { type ChildProcess, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { request as requestPlain } from 'node:http'
import { request as requestTls } from 'node:https'
import { join } from 'node:path'
import { envoyCommand } from './envoy.ts'
import { freePort } from './free-port.ts'
import { end, ready } from './ready.ts'
import { CADDY, GO, HAPROXY, NGINX, PYTHON, type Tool } from './tools.ts'
import { hasTraefik, traefikProgram } from './traefik-program.ts'

/** Addresses that the pages name, and that a test replaces. */
export interface Addresses {
  /** `127.0.0.1:8083` on the pages */
  readonly check: string
  /** `127.0.0.1:8080` */
  readonly gateway: string
  /** `127.0.0.1:3000` */
  readonly upstream: string
}

/** A proxy of check mode, and how it is started with its section of docs/check-mode.md. */
export interface CheckProxy {
  readonly kind: 'nginx' | 'caddy' | 'haproxy' | 'envoy' | 'traefik'
  readonly tool: Tool
  /** Whether its configuration accepts HTTP/2 without TLS. */
  readonly speaksHttp2?: true
  /** Whether it closes a connection after a denial with 400, so that it never reads a request behind it. */
  readonly closesAfter400?: true
  /** Changes the block as the page says for TLS. */
  readonly overTls?: (block: string) => string
  /** Languages of its blocks on the page, each with the name of the file that the block is. */
  readonly files: Readonly<Record<string, string>>
  /** Around a block that is part of a file; `@` stands for the block. */
  readonly wrap?: (directory: string) => string
  command(directory: string, port: number): readonly string[]
}

const CADDY_PROXY: CheckProxy = {
  kind: 'caddy',
  tool: CADDY,
  files: { caddyfile: 'Caddyfile' },
  command: directory => ['caddy', 'run', '--config', join(directory, 'Caddyfile')],
}

/** With a host name as address, which makes Caddy accept HTTP/2 and HTTP/3 too. It changes nothing outside of its directory. */
export const CADDY_OVER_TLS: CheckProxy = {
  ...CADDY_PROXY,
  overTls: block =>
    block
      .replace('http://:8000', 'https://localhost:8000')
      .replace('auto_https off', 'auto_https disable_redirects\n\tskip_install_trust'),
}

/** Where it has not been built, its tests do not exist: as skipped tests they would fail CI, which cannot afford the build. */
const TRAEFIK: CheckProxy = {
  kind: 'traefik',
  tool: GO,
  speaksHttp2: true,
  files: { traefik: 'dynamic.yaml' },
  command: (directory, port) => [
    traefikProgram(),
    `--entryPoints.public.address=127.0.0.1:${port}`,
    `--providers.file.filename=${join(directory, 'dynamic.yaml')}`,
  ],
}

export const CHECK_PROXIES: readonly CheckProxy[] = [
  {
    kind: 'nginx',
    tool: NGINX,
    files: { nginx: 'nginx.conf' },
    wrap: directory => {
      const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
        name => `${name}_temp_path ${join(directory, name)};`,
      )
      return `daemon off; master_process off; pid ${join(directory, 'pid')}; error_log ${join(directory, 'errors')};
events {}
http { access_log off; ${temporary.join(' ')}
@
}`
    },
    command: directory => ['nginx', '-p', directory, '-c', join(directory, 'nginx.conf')],
  },
  {
    kind: 'haproxy',
    tool: HAPROXY,
    files: { haproxy: 'haproxy.cfg', lua: 'postern-check.lua' },
    command: directory => ['haproxy', '-db', '-q', '-f', join(directory, 'haproxy.cfg')],
  },
  CADDY_PROXY,
  {
    kind: 'envoy',
    tool: PYTHON,
    speaksHttp2: true,
    closesAfter400: true,
    files: { envoy: 'envoy.yaml' },
    command: directory => envoyCommand(join(directory, 'envoy.yaml')),
  },
  ...(hasTraefik() ? [TRAEFIK] : []),
]

/** Blocks of docs/check-mode.md by what stands after their fence. */
export function configurations(): ReadonlyMap<string, string> {
  const page = readFileSync(new URL('../../docs/check-mode.md', import.meta.url), 'utf8')
  return new Map(
    [...page.matchAll(/^```(.+)\n([\s\S]*?)^```$/gm)].map(([, name = '', block = '']) => [name, block]),
  )
}

export class RunningProxy {
  readonly url: string
  readonly #process: ChildProcess

  private constructor(url: string, started: ChildProcess) {
    this.url = url
    this.#process = started
  }

  static async start(proxy: CheckProxy, directory: string, addresses: Addresses): Promise<RunningProxy> {
    const port = await freePort()
    const blocks = configurations()
    for (const [language, name] of Object.entries(proxy.files)) {
      const block = blocks.get(language)
      if (block === undefined) throw new Error(`docs/check-mode.md has no block ${language}`)
      const adapted = proxy.overTls === undefined ? block : proxy.overTls(block)
      const text = proxy.wrap === undefined ? adapted : proxy.wrap(directory).replace('@\n', () => adapted)
      await writeFile(join(directory, name), replaceAddresses(text, port, directory, addresses))
    }
    const [program = '', ...words] = proxy.command(directory, port)
    const started = spawn(program, words, {
      cwd: directory,
      env: { ...process.env, HOME: directory, XDG_DATA_HOME: directory, XDG_CONFIG_HOME: directory },
      stdio: ['ignore', 'ignore', process.env['CHECK_LOG'] === undefined ? 'ignore' : 'inherit'],
    })
    const url = proxy.overTls === undefined ? `http://127.0.0.1:${port}` : `https://localhost:${port}`
    return ready(new RunningProxy(url, started), started, () => isReady(url))
  }

  async stop(): Promise<void> {
    await end(this.#process)
  }
}

/** Replaces each address of the page, all of which it must name. */
function replaceAddresses(text: string, port: number, directory: string, addresses: Addresses): string {
  const portOf = (address: string) => `port_value: ${new URL(`http://${address}`).port}`
  return text
    .replaceAll('127.0.0.1:8083', addresses.check)
    .replaceAll('127.0.0.1:8080', addresses.gateway)
    .replaceAll('127.0.0.1:3000', addresses.upstream)
    .replaceAll('port_value: 8083', portOf(addresses.check))
    .replaceAll('port_value: 8080', portOf(addresses.gateway))
    .replaceAll('port_value: 3000', portOf(addresses.upstream))
    .replaceAll('port_value: 8000', `port_value: ${port}`)
    .replaceAll(':8000', `:${port}`)
    .replaceAll('listen 8000', `listen 127.0.0.1:${port}`)
    .replaceAll(/\/etc\/(?:haproxy|caddy)/g, directory)
}

/** Whether it forwards to the gateway: Traefik listens before it has read its configuration. */
function isReady(url: string): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const ask = url.startsWith('https:') ? requestTls : requestPlain
  ask(`${url}/api/v1/auth`, { rejectUnauthorized: false, agent: false }, response => {
    response.resume()
    resolve(response.statusCode === 401)
  })
    .on('error', () => resolve(false))
    .end()
  return promise
}
