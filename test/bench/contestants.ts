import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { assertionKeyPem } from '../support/assertion-keys.ts'
import { forge, OTHER_WORKSPACE, WORKSPACE, writeKeys } from './keys.ts'
import { LARGE, SMALL } from './nginx.ts'
import type { ServerProcess } from './server-process.ts'
import type { BenchWorld } from './world.ts'

/** One kind of request to one server whose processor time is measured. */
export interface Contestant {
  /** Used in the tables, the JSON and the goals. */
  readonly name: string
  readonly pid: number
  /** A second process that serves the same requests. */
  readonly besidePid?: number
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly expect: { readonly status: number; readonly bytes?: number }
  readonly connections?: number
  readonly keysFile?: string
  readonly firstKey?: number
}

const WORKSPACE_PATH = `/api/v1/workspaces/${WORKSPACE}`
const FILES_PATH = `${WORKSPACE_PATH}/files`
/** More keys than requests in flight, so that no two requests share a key and a cache of one record never hits. */
const ROTATED_KEYS = 4096

/** Starts every contestant that this machine supports. @param has Lua modules of nginx; another checkout to start too */
export async function startContestants(
  world: BenchWorld,
  has: { lua: boolean; against: string | null; nodeFlags: readonly string[] },
): Promise<Contestant[]> {
  const keys = await world.mint.mint(ROTATED_KEYS)
  const key = keys[0] ?? ''
  const gateway = await world.startGateway('gateway', {}, { nodeFlags: has.nodeFlags })
  const list = [...waysOfGateway('gateway', gateway, key)]
  if (has.against !== null) {
    const other = await world.startGateway('other', {}, { checkout: has.against })
    list.push(...waysOfGateway('other', other, key))
  }
  list.push(...(await startSharing(world, key)))
  const cold = await world.startGateway('gateway-cold', { POSTERN_KEYS_MEMORY_MAX_ENTRIES: '1' })
  const keysFile = writeKeys(join(world.directory, 'keys'), keys)
  list.push(...(await startAsserting(world, key)))
  list.push({ ...way('gateway, key from Redis', cold, '/api/v1/auth', key, { status: 200 }), keysFile })
  list.push(...(await startPeers(world, key)), ...(await startBounds(world, key, has.lua)))
  return list
}

/** Starts this checkout and another with default settings, and all that goals compare a gateway with. */
export async function startBothVersions(
  world: BenchWorld,
  checkout: string,
  lua: boolean,
): Promise<Contestant[]> {
  const [key = ''] = await world.mint.mint(1)
  return [
    ...waysOfGateway('gateway', await world.startGateway('gateway'), key),
    ...waysOfGateway('other', await world.startGateway('other', {}, { checkout }), key),
    ...(await startPeers(world, key)),
    ...(await startBounds(world, key, lua)),
  ]
}

/** What no gateway in Node can be faster than, and nginx. */
async function startBounds(world: BenchWorld, key: string, hasLua: boolean): Promise<Contestant[]> {
  const least = await world.startNode('least-proxy.ts', 'least-proxy')
  const list = forwarding('node:http + undici, no auth', least, key)
  if (hasLua) {
    const lua = await world.startLua()
    list.push(...forwarding('nginx + Lua', lua, key))
    list.push(way('nginx + Lua, forged key', lua, WORKSPACE_PATH, forge(key), { status: 401 }))
  }
  return [...list, ...forwarding('upstream alone', world.upstream, key)]
}

/** Starts the gateway with default settings, and the servers of Node that it is compared with. */
export async function startGatewayAndPeers(world: BenchWorld): Promise<Contestant[]> {
  const [key = ''] = await world.mint.mint(1)
  return [
    ...waysOfGateway('gateway', await world.startGateway('gateway'), key),
    ...(await startPeers(world, key)),
  ]
}

async function startPeers(world: BenchWorld, key: string): Promise<Contestant[]> {
  const engine = await world.startNode('http-proxy.ts', 'http-proxy-3')
  const replyFrom = await world.startNode('reply-from.ts', 'reply-from')
  const floor = await world.startNode('refuse-all.ts', 'bare-node')
  return [
    ...forwarding('http-proxy-3', engine, key),
    ...forwarding('reply-from', replyFrom, key),
    way('bare Node 401', floor, WORKSPACE_PATH, key, { status: 401 }),
  ]
}

/** All connections request the same objects, so that the gateway coalesces or caches their upstream requests. */
async function startSharing(world: BenchWorld, key: string): Promise<Contestant[]> {
  const routes = (upstream: string) =>
    JSON.stringify(
      [
        {
          name: 'workspace',
          path: '/api/v1/workspaces/{workspaceId}',
          upstreamPath: `${upstream}/{workspaceId}`,
        },
        {
          name: 'files',
          path: '/api/v1/workspaces/{workspaceId}/files',
          upstreamPath: `${upstream}/{workspaceId}/files`,
          scope: 'files:read',
        },
      ].map(route => ({ ...route, coalesce: true })),
    )
  const shared = await world.startGateway('gateway-shared', { POSTERN_ROUTES: routes('/api/v1/workspaces') })
  const cached = await world.startGateway('gateway-cached', {
    POSTERN_ROUTES: routes('/kept'),
    POSTERN_UPSTREAM_CACHE_MAX_BYTES: '10000000',
  })
  return [...forwarding('gateway, shared', shared, key), ...forwarding('gateway, cached', cached, key)]
}

/** The same request with a signed assertion: one for all requests of the key, and one for each request. */
async function startAsserting(world: BenchWorld, key: string): Promise<Contestant[]> {
  const keyFile = join(world.directory, 'assertion.pem')
  writeFileSync(keyFile, assertionKeyPem())
  const settings = {
    POSTERN_UPSTREAM_ASSERTION_KEY_FILES: keyFile,
    POSTERN_UPSTREAM_ASSERTION_ISSUER: 'https://api.example.com',
    POSTERN_UPSTREAM_ASSERTION_AUDIENCE: 'files',
  }
  const reusing = await world.startGateway('gateway-assertion', settings)
  const binding = { ...settings, POSTERN_UPSTREAM_ASSERTION_BIND: 'request' }
  const signing = await world.startGateway('gateway-assertion-bound', binding)
  const small = { status: 200, bytes: SMALL }
  return [
    way('gateway, assertion, 0.4 KB', reusing, WORKSPACE_PATH, key, small),
    way('gateway, assertion for each request, 0.4 KB', signing, WORKSPACE_PATH, key, small),
  ]
}

function waysOfGateway(name: string, server: ServerProcess, key: string): Contestant[] {
  const otherWorkspace = `/api/v1/workspaces/${OTHER_WORKSPACE}`
  return [
    ...forwarding(name, server, key),
    way(`${name}, forged key`, server, WORKSPACE_PATH, forge(key), { status: 401 }),
    way(`${name}, foreign workspace`, server, otherWorkspace, key, { status: 404 }),
    way(`${name}, auth endpoint`, server, '/api/v1/auth', key, { status: 200 }),
  ]
}

function forwarding(name: string, server: ServerProcess, key: string): Contestant[] {
  return [
    way(`${name}, 0.4 KB`, server, WORKSPACE_PATH, key, { status: 200, bytes: SMALL }),
    way(`${name}, 11 KB`, server, FILES_PATH, key, { status: 200, bytes: LARGE }),
  ]
}

function way(
  name: string,
  server: ServerProcess,
  path: string,
  key: string,
  expect: Contestant['expect'],
): Contestant {
  const headers = { Authorization: `Bearer ${key}` }
  return { name, pid: server.pid, url: server.url + path, headers, expect }
}

export function contestantNamed(name: string, all: readonly Contestant[]): Contestant {
  const found = all.find(contestant => contestant.name === name)
  if (found === undefined) throw new Error(`There is no contestant ${name}`)
  return found
}

/** Verifies the response before measuring, because a wrong response may be faster than a right one. */
export async function checkAnswer({ name, url, headers, expect }: Contestant): Promise<void> {
  const response = await fetch(url, { headers })
  const body = await response.arrayBuffer()
  const rightSize = expect.bytes === undefined || expect.bytes === body.byteLength
  if (response.status !== expect.status || !rightSize) {
    throw new Error(`${name} answered ${response.status} with ${body.byteLength} bytes, not ${expect.status}`)
  }
}
