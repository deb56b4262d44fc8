import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { CHECK_PROXIES, RunningProxy } from '../support/check-proxies.ts'
import { childProcesses } from '../support/child-processes.ts'
import { Envoy } from '../support/envoy.ts'
import { Haproxy } from '../support/haproxy.ts'
import { Nginx } from '../support/nginx.ts'
import { PgBouncer } from '../support/pgbouncer.ts'
import { PostgresServer, startReplica } from '../support/postgres-server.ts'
import { PrometheusServer } from '../support/prometheus-server.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'
import { HAPROXY, has, NGINX, PGBOUNCER, POSTGRES, PROMETHEUS, PYTHON, VARNISH } from '../support/tools.ts'
import { Varnish } from '../support/varnish.ts'

const NOWHERE = 'http://127.0.0.1:1'
const NO_DATABASE = 'postgres://postern:secret@127.0.0.1:1/postern'

/** Some end by themselves, and some run and never answer, or answer with an error. */
const STARTS = [
  { tool: HAPROXY, start: () => Haproxy.start(temporaryDirectory(), []) },
  {
    tool: NGINX,
    start: () =>
      Nginx.start(temporaryDirectory(), NOWHERE, { directives: ['no_directive'], keepAliveSeconds: 5 }),
  },
  { tool: PYTHON, start: () => Envoy.start(temporaryDirectory(), {}, NOWHERE) },
  {
    tool: VARNISH,
    start: () => {
      const directory = temporaryDirectory()
      // Where its working directory should be.
      writeFileSync(join(directory, 'careful'), '')
      return Varnish.start(directory, NOWHERE, 'careful')
    },
  },
  { tool: PGBOUNCER, start: () => PgBouncer.start(NO_DATABASE, 'session', { query_wait_timeout: '1' }) },
  { tool: PROMETHEUS, start: () => PrometheusServer.start([], [], ['--no-such-flag']) },
  { tool: POSTGRES, start: () => PostgresServer.temporary({ no_such_setting: 'on' }) },
  { tool: POSTGRES, start: () => startReplica(NO_DATABASE) },
  ...CHECK_PROXIES.filter(({ kind }) => kind === 'nginx').map(proxy => ({
    tool: proxy.tool,
    start: () => {
      const nowhere = new URL(NOWHERE).host
      const addresses = { check: nowhere, gateway: nowhere, upstream: nowhere }
      return RunningProxy.start(proxy, temporaryDirectory(), addresses)
    },
  })),
]

test('a proxy, pooler or database that does not become ready is ended, so that tests leave no process behind', async () => {
  const before = new Set(childProcesses())
  const starts = STARTS.filter(({ tool }) => has(tool))
  const outcomes = await Promise.allSettled(starts.map(({ start }) => start()))
  for (const outcome of outcomes) if (outcome.status === 'fulfilled') await outcome.value.stop()
  expect(outcomes.map(({ status }) => status)).toEqual(starts.map(() => 'rejected'))
  expect(childProcesses().filter(pid => !before.has(pid))).toEqual([])
})
