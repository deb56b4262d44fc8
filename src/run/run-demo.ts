import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { createInterface } from 'node:readline'
import type { Logger } from 'pino'
import { loadConfig } from '../config/load-config.ts'
import type { Config } from '../config/schema/schema.ts'
import { createInProcessAnnouncer } from '../console/announcing/announcer.ts'
import type { Console } from '../console/app.ts'
import { createOneTimeLink } from '../console/sign-in/one-time-link.ts'
import { systemClock, withinDeadline } from '../domain/clock.ts'
import { SettingError, StartError } from '../domain/errors.ts'
import { findRedisTopology } from '../domain/redis-address.ts'
import { describeError } from '../observability/control-logger.ts'
import { HistoryClock, makeHistory } from './demo-history.ts'
import { DEMO_PLANS } from './demo-plans.ts'
import { EXIT, type Host, outputErrorCode, writeOnce } from './host.ts'
import { loadRunSettings, type RunSettings } from './reloader.ts'
import { startConsole } from './run-console.ts'
import { type GatewayRun, startGateway } from './run-gateway.ts'
import { createContext, runUntilSignal } from './run-until-signal.ts'
import { createSampleUpstream, WEBHOOK_PATH, WORKSPACE_NAMES } from './sample-upstream.ts'

const LOOPBACK = '127.0.0.1'
const USUAL_PORTS = { gateway: 8080, console: 8081, ops: 9090 } as const
const PARTS = ['gateway', 'console', 'ops'] as const
const USUAL_INTERNAL_PORT = 8082
const WORKSPACE = 'ws_1'
const OTHER_WORKSPACE = 'ws_2'
/** Default routes, whose responses the sample upstream has. */
const SAMPLE_ROUTES = ['auth', 'workspace', 'files']
/** Many times longer than a slow machine needs. */
const INTRODUCTION_DEADLINE_MS = 10_000
const ISSUE_DEADLINE_MS = 10_000
const NOT_INTRODUCED =
  `The gateway has not reported to the console within ${INTRODUCTION_DEADLINE_MS / 1000} s. Revocations will return ` +
  'before the gateway has confirmed them. See the log for the reason.\n'
/** The user that the printed link signs in. */
const DEMO_USER = {
  subject: 'demo',
  name: 'Demo',
  workspaces: [WORKSPACE, OTHER_WORKSPACE],
  administrator: true,
  role: 'manager',
} as const

/** `postern demo`: gateway, console and a sample upstream in one process, in memory, without configuration. */
export async function runDemo(
  host: Host,
  version: string,
  given: ReadonlyMap<string, string>,
  configFile: string | undefined,
): Promise<void> {
  const flags = withOwnService(host, given, configFile)
  const upstream = createSampleUpstream().listen(0, LOOPBACK)
  await once(upstream, 'listening')
  const upstreamUrl = `http://${LOOPBACK}:${tcpPort(upstream.address())}`
  const settings = await configureDemo(host, flags, configFile, upstreamUrl)
  const context = createContext(host, version, settings, ['gateway', 'console'])
  // A demo needs no drain: Ctrl-C stops it at once.
  host.onSignal('SIGINT', () => host.exit(EXIT.ok))
  const isSample = settings.config.upstream.url === upstreamUrl
  const user = { ...DEMO_USER, ...(isSample ? { workspaceNames: WORKSPACE_NAMES } : {}) }
  const oneTimeLink = createOneTimeLink(user, systemClock, randomBytes)
  let gateway: GatewayRun | null = null
  let introduced = new Promise<void>(() => {})
  // The console first, so that the gateway can report to it at once.
  const announcer = createInProcessAnnouncer(message => gateway?.invalidations.receive(message))
  const clock = new HistoryClock()
  const history = {
    clock,
    config: settings.config,
    workspaces: [WORKSPACE, OTHER_WORKSPACE],
    webhookUrl: `${upstreamUrl}${WEBHOOK_PATH}`,
  } as const
  const prepare = ({ app, internal }: Console) =>
    // Settings may forbid a part of it, and the demo works without.
    makeHistory({ ...history, app, internal }).catch((error: unknown) =>
      host.writeError(`${describeError(error)}: the demo goes on without the rest\n`),
    )
  const signInUrl = () => new URL(oneTimeLink.path, settings.config.console.publicUrl).href
  const { atTerminal, environment } = host
  const starts = [
    () => startConsole(context, { announcer, oneTimeLink, clock }, prepare),
    async () => {
      gateway = await startGateway(context)
      gateway.invalidations.subscribed()
      introduced = gateway.introduced ?? introduced
      return gateway
    },
  ]
  const greet = async (addresses: Readonly<Record<string, string>>) => {
    await withinDeadline(introduced, INTRODUCTION_DEADLINE_MS, () => host.writeError(NOT_INTRODUCED))
    const moved = describeOtherPorts(flags, addresses)
    const facts = { atTerminal, moved, isSample, isOverSsh: environment['SSH_CONNECTION'] !== undefined }
    const text = await writeIntroduction(settings.config, addresses, { signInUrl: signInUrl(), ...facts })
    await introduce(host, text)
  }
  // Lines about its start and its own keys would stand before the text, and in the middle of it.
  await quietly(context.logger, () => runUntilSignal(context, starts, greet))
  if (!atTerminal) return
  createInterface({ input: host.streams.input }).on('line', () => {
    oneTimeLink.renew()
    host.write(`A new sign-in link, in place of the last:\n${signInUrl()}\n`)
  })
}

/** Without the lines of information. */
async function quietly(logger: Logger, run: () => Promise<unknown>): Promise<void> {
  const { level } = logger
  if (logger.isLevelEnabled('warn')) logger.level = 'warn'
  try {
    await run()
  } finally {
    logger.level = level
  }
}

/** Keys and link exist nowhere else: without them the demo cannot be used. */
async function introduce(host: Host, text: string): Promise<void> {
  try {
    await writeOnce(host.streams.output, text)
  } catch (error) {
    const code = outputErrorCode(error)
    host.writeError(`The keys of the demo could not be written to standard output (${code}): stopping\n`)
    host.exit(EXIT.failure)
  }
}

/**
 * Flags of the demo take precedence over environment and configuration file. The address of the user's own service and
 * ports of their choice become flags, so that they are not hidden.
 */
function withOwnService(
  host: Host,
  flags: ReadonlyMap<string, string>,
  configFile: string | undefined,
): ReadonlyMap<string, string> {
  const own = loadConfig({ environment: host.environment, flags, configFile, planes: [] })
  // The demo loads them again, and reports the mistakes then.
  if (!own.ok) return flags
  const { config } = own
  const ports = PARTS.filter(part => config[part].port !== USUAL_PORTS[part]).map(
    part => [`--${part}-port`, String(config[part].port)] as const,
  )
  const { url } = config.upstream
  return new Map([...(url === undefined ? [] : [['--upstream-url', url] as const]), ...ports, ...flags])
}

/** Generates secrets for this run, and picks free ports, so that the demo starts beside other processes. */
async function configureDemo(
  host: Host,
  flags: ReadonlyMap<string, string>,
  configFile: string | undefined,
  upstreamUrl: string,
): Promise<RunSettings> {
  const secret = () => randomBytes(32).toString('base64url')
  const gatewayPort = await portOfFlag(flags.get('--gateway-port'), USUAL_PORTS.gateway)
  const consolePort = await portOfFlag(flags.get('--console-port'), USUAL_PORTS.console)
  const internalPort = await portOfFlag(flags.get('--console-internal-port'), USUAL_INTERNAL_PORT)
  const demoFlags = new Map([
    ['--gateway-host', LOOPBACK],
    ['--console-host', LOOPBACK],
    ['--console-internal-host', LOOPBACK],
    ['--ops-host', LOOPBACK],
    ['--console-gateway-url', `http://${LOOPBACK}:${gatewayPort}`],
    ['--console-public-url', `http://${LOOPBACK}:${consolePort}`],
    ['--ops-port', String(await freePort(USUAL_PORTS.ops))],
    ['--upstream-url', upstreamUrl],
    ['--key-service-url', `http://${LOOPBACK}:${internalPort}`],
    ['--key-service-token', secret()],
    ['--console-admin-token', secret()],
    ['--keys-signing-secrets', secret()],
    ['--database-url', 'sqlite::memory:'],
    ['--leaks-enabled', 'true'],
    ['--limits-plans', JSON.stringify(DEMO_PLANS)],
    ['--webhooks-workspaces-enabled', 'true'],
    ['--webhooks-workspaces-allow-http', 'true'],
    ['--webhooks-workspaces-allowed-cidrs', LOOPBACK],
    ['--drain-delay-ms', '0'],
    ['--log-level', 'info'],
    ['--log-format', 'pretty'],
    ...flags,
    // Last: other settings above name these ports, so each needs a number.
    ['--gateway-port', gatewayPort],
    ['--console-port', consolePort],
    ['--console-internal-port', internalPort],
  ])
  const settings = loadRunSettings(() =>
    loadConfig({
      environment: host.environment,
      flags: demoFlags,
      configFile,
      planes: ['gateway', 'console'],
    }),
  )
  requireNoServers(settings.config)
  return settings
}

/** Made-up keys and events must not reach what a real installation uses. @throws SettingError */
function requireNoServers({ redis, regions, console: { webhook } }: Config): void {
  const named = [
    ...(findRedisTopology(redis) === null ? [] : ['redis']),
    ...(regions.length === 0 ? [] : ['regions']),
    ...(webhook.url === undefined ? [] : ['console.webhook']),
  ]
  if (named.length === 0) return
  throw new SettingError(
    `${named.join(', ')}: the demo keeps everything in memory and uses no Redis or webhook of yours. Leave it out of what the demo reads`,
  )
}

/** The port of the flag, where 0 means any free port; without a flag, the usual port if it is free. */
async function portOfFlag(given: string | undefined, usual: number): Promise<string> {
  if (given === undefined) return String(await freePort(usual))
  return given === '0' ? String(await freePort(0)) : given
}

/** The usual port if it is free, else any free port. */
async function freePort(usual: number): Promise<number> {
  for (const port of [usual, 0]) {
    const probe = createServer()
    try {
      probe.listen(port, LOOPBACK)
      await once(probe, 'listening')
      return tcpPort(probe.address())
    } catch {
      // In use: the next attempt lets the system choose.
    } finally {
      probe.close()
    }
  }
  throw new StartError('There is no free port on this machine')
}

/** Says of each part whose usual port is in use, such as by another demo, where it listens. */
export function describeOtherPorts(
  flags: ReadonlyMap<string, string>,
  addresses: Readonly<Record<string, string>>,
): string {
  return Object.entries(USUAL_PORTS)
    .map(([part, usual]) => ({ part, usual, port: new URL(addresses[part] ?? '').port }))
    .filter(({ part, usual, port }) => !flags.has(`--${part}-port`) && port !== String(usual))
    .map(({ part, usual, port }) => {
      const moved = part === 'ops' ? 'metrics are' : `the ${part} listens`
      return `Port ${usual} is in use, perhaps by another demo: ${moved} on port ${port}.\n`
    })
    .join('')
}

function tcpPort(address: AddressInfo | string | null): number {
  if (address === null || typeof address === 'string') throw new Error('A TCP listener has a port')
  return address.port
}

interface Introduction {
  readonly signInUrl: string
  readonly atTerminal: boolean
  /** About ports that are in use; empty if none is. */
  readonly moved: string
  /** Rather than a service of the user's own. */
  readonly isSample: boolean
  /** The browser is most likely on another machine. */
  readonly isOverSsh: boolean
}

/** Issues keys through the admin API. @returns the text that shows what to do with them */
async function writeIntroduction(
  config: Config,
  addresses: Readonly<Record<string, string>>,
  { signInUrl, atTerminal, moved, isSample, isOverSsh }: Introduction,
): Promise<string> {
  const admin = `${addresses['console']}/admin/v1`
  const token = config.console.adminToken?.[0] ?? ''
  const place = { admin, token, gateway: addresses['gateway'] ?? '' }
  const hasSampleRoutes = SAMPLE_ROUTES.every(sample => config.routes.some(({ name }) => name === sample))
  const requests = isSample && hasSampleRoutes ? showSampleRequests : showOwnRequests
  return [
    `\nPostern is running, ${isSample ? 'with a sample upstream' : `in front of ${config.upstream.url}`}. Everything is in memory.\n`,
    `Two weeks of keys, changes, requests and rejections before this start are made up, so that pages have something to show.\n`,
    moved,
    `\nThe console, in a browser; this link signs you in, once, within an hour:\n`,
    `${signInUrl}\n`,
    isOverSsh ? sshHint(signInUrl) : '',
    ...(await requests(config, place)),
    `\nManage keys on the command line, in another terminal. A checkout has the command in src/bin:\n`,
    `export PATH="$PWD/src/bin:$PATH"\n`,
    `export POSTERN_CONSOLE_URL=${addresses['console']} POSTERN_ADMIN_TOKEN=${token}\n`,
    `postern keys list --workspace ${WORKSPACE}\n`,
    `\nRead the gateway's metrics:\n`,
    curl(`${addresses['ops']}/metrics`),
    atTerminal ? `\nPress Enter for a new sign-in link, Ctrl-C to stop.\n\n` : `\nPress Ctrl-C to stop.\n\n`,
  ].join('')
}

interface Place {
  readonly admin: string
  readonly token: string
  readonly gateway: string
}

const withKey = (secret: string) => `-H 'Authorization: Bearer ${secret}'`
const curl = (words: string) => `curl -sS ${words}\n`

async function showSampleRequests(config: Config, { admin, token, gateway }: Place): Promise<string[]> {
  const full = await issueKey(admin, token, 'Demo key', Object.keys(config.scopes))
  const narrow = await issueKey(admin, token, 'Demo key without files', ['workspace:read'])
  const api = `${gateway}/api/v1`
  return [
    `\nDescribe a key:\n`,
    curl(`${api}/auth ${withKey(full.secret)}`),
    `\nGet its workspace, from the upstream:\n`,
    curl(`${api}/workspaces/${WORKSPACE} ${withKey(full.secret)}`),
    `\nList two files of the workspace:\n`,
    curl(`'${api}/workspaces/${WORKSPACE}/files?limit=2' ${withKey(full.secret)}`),
    `\nRequest another workspace, which exists but is not this key's: 404, and the upstream gets no request:\n`,
    curl(`${api}/workspaces/${OTHER_WORKSPACE} ${withKey(full.secret)}`),
    `\nList files with a key that lacks the scope files:read: 403:\n`,
    curl(`${api}/workspaces/${WORKSPACE}/files ${withKey(narrow.secret)}`),
    `\nRevoke that key, wait for the gateway to confirm it, and the gateway rejects it:\n`,
    curl(`-X POST '${admin}/keys/${narrow.id}/revoke?wait=1' -H 'Authorization: Bearer ${token}'`),
    curl(`${api}/auth ${withKey(narrow.secret)}`),
  ]
}

/** Of each configured route, with the names of its parameters as their values but for the workspace. */
async function showOwnRequests(config: Config, { admin, token, gateway }: Place): Promise<string[]> {
  const { secret } = await issueKey(admin, token, 'Demo key', Object.keys(config.scopes))
  const requests = config.routes.map(({ name, path, summary }) => {
    const target = path.replaceAll('{workspaceId}', WORKSPACE).replaceAll(/[{}]/g, '')
    return `\n${summary ?? `Route ${name}`}:\n${curl(`'${gateway}${target}' ${withKey(secret)}`)}`
  })
  return [`\nWith a key of the workspace ${WORKSPACE}:\n`, ...requests]
}

function sshHint(url: string): string {
  const { port, hostname } = new URL(url)
  return `\nThis machine is used over SSH. For a browser on yours, run there first, with the name of this machine:\nssh -L ${port}:${hostname}:${port} HOST\n`
}

async function issueKey(
  admin: string,
  token: string,
  name: string,
  scopes: readonly string[],
): Promise<{ id: string; secret: string }> {
  const response = await fetch(`${admin}/workspaces/${WORKSPACE}/keys`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ name, scopes }),
    signal: AbortSignal.timeout(ISSUE_DEADLINE_MS),
  })
  if (response.status !== 201)
    throw new Error(`The console responded with status ${response.status} to the issue of a key`)
  // Our own console, in this process: the tests of the admin API check the form of this response.
  const issued = (await response.json()) as { key: { id: string }; secret: string }
  return { id: issued.key.id, secret: issued.secret }
}
