import { describe, expect, test } from 'vitest'
import { configOf, mistakesOf } from './examples.ts'

const CHECK = { POSTERN_GATEWAY_CHECK_PORT: '8083', POSTERN_GATEWAY_CHECK_PROXY: 'nginx' }
const mistakes = (change: NodeJS.ProcessEnv) => mistakesOf({ environment: { ...CHECK, ...change } })

describe('check mode', () => {
  test('is off by default', () => {
    expect(configOf({ environment: {} }).gateway.check).toEqual({ host: '::' })
  })

  test.each<[string, NodeJS.ProcessEnv, RegExp]>([
    [
      'a port without a kind of proxy',
      { POSTERN_GATEWAY_CHECK_PROXY: '' },
      /check\.port, gateway\.check\.proxy belong together/,
    ],
    [
      'a kind of proxy without a port',
      { POSTERN_GATEWAY_CHECK_PORT: '' },
      /check\.port, gateway\.check\.proxy belong together/,
    ],
    [
      'an unknown kind of proxy',
      { POSTERN_GATEWAY_CHECK_PROXY: 'apache' },
      /CHECK_PROXY must be one of nginx, caddy, traefik, haproxy, envoy/,
    ],
    [
      'a path prefix of a proxy that adds none',
      { POSTERN_GATEWAY_CHECK_PATH_PREFIX: '/check' },
      /CHECK_PATH_PREFIX has no effect: only Envoy/,
    ],
    [
      'the port of another listener',
      { POSTERN_GATEWAY_CHECK_PORT: '9090' },
      /ops\.port is 9090, which gateway\.check\.port already uses/,
    ],
    [
      'a route with another path at the upstream',
      {
        POSTERN_ROUTES: JSON.stringify([
          { name: 'files', path: '/v2/{workspaceId}', upstreamPath: '/old/{workspaceId}' },
        ]),
      },
      /routes\.files\.upstreamPath is not possible with gateway\.check\.port: .*Remove it/,
    ],
  ])('refuses %s', (_, change, text) => {
    expect(mistakes(change)).toEqual([expect.stringMatching(text)])
  })

  test('allows an upstream path that is the same, and a prefix of Envoy', () => {
    const routes = [{ name: 'files', path: '/v2/{workspaceId}', upstreamPath: '/v2/{workspaceId}' }]
    const envoy = { POSTERN_GATEWAY_CHECK_PROXY: 'envoy', POSTERN_GATEWAY_CHECK_PATH_PREFIX: '/check' }
    expect(mistakes({ ...envoy, POSTERN_ROUTES: JSON.stringify(routes) })).toEqual([])
  })
})
