import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { stringify } from 'yaml'
import { CHART, MINIMAL, NAME, RELEASE, settingsFileOf, type Values } from '../support/chart.ts'
import { freePort } from '../support/free-port.ts'
import { at, listAt, type Manifest, textAt, valueAt } from '../support/manifests.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import { RecordingUpstream } from '../support/recording-upstream.ts'
import { RedisServer } from '../support/redis-server.ts'
import { has, POSTGRES, REDIS } from '../support/tools.ts'
import { type ControlPlane, untilInCluster } from './control-plane.ts'
import { KubeletDouble, type RunningPod } from './kubelet-double.ts'
import { type Part, STEP_MS } from './on-control-plane.ts'

const NAMESPACE = 'walk'
const ROLLOUT_MS = 90_000

let cluster: ControlPlane
let postgres: PostgresServer
let redis: RedisServer
let upstream: RecordingUpstream
let kubelet: KubeletDouble
let values: Values
/** Issued by the first console, and valid until the end. */
let key: string
let console_: RunningPod
let gateway: RunningPod

/** Ports of their own, because all pods share the loopback. */
async function walkValues(): Promise<Values> {
  const [api, ops, pages, internal, consoleOps] = await Promise.all(Array.from({ length: 5 }, freePort))
  return {
    image: MINIMAL.image,
    config: { upstream: { url: upstream.url }, drain: { delayMs: 0, timeoutMs: 0 } },
    secrets: {
      redis: { url: { existingSecret: 'postern-redis' } },
      database: { url: { existingSecret: 'postern-database' } },
    },
    gateway: { config: { gateway: { port: api }, ops: { port: ops } }, minReadySeconds: 0 },
    console: {
      enabled: true,
      replicas: 2,
      minReadySeconds: 0,
      backup: { enabled: true },
      config: { console: { port: pages, internal: { port: internal } }, ops: { port: consoleOps } },
    },
  }
}

/** Upgrades to the values with further ones for the gateway. */
async function upgrade(gatewayValues: object = {}, config: object = {}): Promise<void> {
  const given = values['gateway'] as object
  const changed = {
    ...values,
    config: { ...(values['config'] as object), ...config },
    gateway: { ...given, ...gatewayValues },
  }
  const args = ['upgrade', '--install', RELEASE, CHART, '-n', NAMESPACE, '-f', '-']
  const { ok, stderr } = await cluster.helm(args, stringify(changed))
  if (!ok) throw new Error(stderr)
}

const workload = (plane: string) => cluster.get('deployment', `${NAME}-${plane}`, NAMESPACE)

/** Waits until every pod of a plane is of the newest revision and ready. */
function rolledOut(plane: string, replicas: number): Promise<boolean> {
  return untilInCluster(
    `${replicas} pods of the ${plane} are ready`,
    async () => {
      const { metadata, status } = await workload(plane)
      const counts = ['replicas', 'updatedReplicas', 'availableReplicas'].map(name => valueAt(status, name))
      const isSeen = valueAt(status, 'observedGeneration') === valueAt(metadata, 'generation')
      return isSeen && counts.every(count => count === replicas)
    },
    ROLLOUT_MS,
  )
}

/** Pods of the gateway or the console with the settings of their Deployment's template, or with others. */
async function podsOf(plane: string, isCurrent = true): Promise<readonly Manifest[]> {
  const current = settingsFileOf(at(await workload(plane), 'spec.template'))
  const pods = await cluster.list('pods', NAMESPACE)
  return pods.filter(
    pod =>
      valueAt(pod, 'metadata.labels', 'app.kubernetes.io/component') === plane &&
      valueAt(pod, 'metadata.deletionTimestamp') === undefined &&
      (settingsFileOf(pod) === current) === isCurrent,
  )
}

async function runFirst(plane: string, isCurrent = true): Promise<RunningPod> {
  const [pod] = await podsOf(plane, isCurrent)
  if (pod === undefined) throw new Error(`The ${plane} has no such pod`)
  return kubelet.run(pod)
}

const generated = () => cluster.get('secret', `${NAME}-generated`, NAMESPACE)

async function issueKey(): Promise<string> {
  const token = Buffer.from(textAt(await generated(), 'data', 'console-admin-token'), 'base64').toString()
  const answer = await fetch(`${console_.urlOf('http')}/admin/v1/workspaces/ws_1/keys`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: '{"name":"walk","scopes":["workspace:read"]}',
  })
  expect(answer.status).toBe(201)
  return textAt(await answer.json(), 'secret')
}

/** A request with the key, through the gateway to the upstream. */
async function request(): Promise<number> {
  const answer = await fetch(`${gateway.urlOf('http')}/api/v1/workspaces/ws_1`, {
    headers: { authorization: `Bearer ${key}` },
  })
  await answer.body?.cancel()
  return answer.status
}

async function prepare(): Promise<void> {
  ;[postgres, redis, upstream] = await Promise.all([
    PostgresServer.started(),
    RedisServer.start(),
    RecordingUpstream.start(),
  ])
  kubelet = new KubeletDouble(cluster, NAMESPACE)
  values = await walkValues()
  const secret = (name: string, stringData: object) => ({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name, namespace: NAMESPACE },
    stringData,
  })
  const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' }
  await cluster.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: NAMESPACE, labels } })
  await cluster.apply(
    secret('postern-redis', { 'redis-url': redis.url }),
    secret('postern-database', { 'database-url': await postgres.database() }),
  )
}

/** Each step begins where the one before ended. */
export const describeWalk: Part = shared =>
  describe.skipIf(![POSTGRES, REDIS].every(has))(
    'the life of a release with PostgreSQL',
    { timeout: STEP_MS },
    () => {
      beforeAll(async () => {
        cluster = shared()
        await prepare()
      })
      afterAll(async () => {
        await kubelet?.stop()
        await Promise.all([postgres?.stop(), redis?.stop(), upstream?.stop()])
      })

      it('installed, it forwards a request with a key that its console issued', async () => {
        await upgrade()
        await Promise.all([rolledOut('gateway', 2), rolledOut('console', 2)])
        console_ = await runFirst('console')
        key = await issueKey()
        gateway = await runFirst('gateway')
        expect(await request()).toBe(200)
        expect(upstream.requests.at(-1)).toContain('/ws_1')
      })

      it('its CronJob saves the database, with the command, settings and secrets of its pod', async () => {
        const job = ['job', 'backup-now']
        await cluster.kubectl('-n', NAMESPACE, 'create', ...job, `--from=cronjob/${NAME}-backup`)
        const pod = await untilInCluster(
          'the job has a pod',
          async () =>
            (await cluster.list('pods', NAMESPACE)).find(
              found => valueAt(found, 'metadata.labels', 'app.kubernetes.io/component') === 'backup',
            ),
          ROLLOUT_MS,
        )
        const exit = await (await kubelet.start(pod)).exited
        expect([exit.code, exit.stdout], exit.stderr).toEqual([0, expect.stringMatching(/^Saved 1 key/)])
        await cluster.kubectl('-n', NAMESPACE, 'delete', ...job)
      })

      it('is not upgraded to another database without a word', async () => {
        const { secrets, console: given, ...others } = values as Record<string, object>
        const { redis: ofRedis } = secrets as Record<string, object>
        const toSqlite = (more: object) =>
          cluster.helm(
            ['upgrade', RELEASE, CHART, '-n', NAMESPACE, '--dry-run=server', '-f', '-'],
            stringify({
              ...others,
              secrets: { redis: ofRedis },
              console: { ...given, replicas: 1, ...more },
            }),
          )
        const refused = await toSqlite({})
        expect([refused.ok, refused.stderr]).toEqual([
          false,
          expect.stringContaining('the console of this release uses PostgreSQL, and these values SQLite'),
        ])
        const allowed = await toSqlite({ switchDatabase: true })
        expect(allowed.ok, allowed.stderr).toBe(true)
      })

      it('upgraded, its new pods take over from the old ones, which drain', async () => {
        await upgrade({}, { log: { level: 'warn' } })
        await Promise.all([rolledOut('gateway', 2), rolledOut('console', 2)])
        expect((await gateway.stop()).code).toBe(0)
        gateway = await runFirst('gateway')
        expect(await request()).toBe(200)
      })

      it('broken by a setting, it keeps its old pods, which can restart with their own settings', async () => {
        // A cache that no route uses: only the program itself refuses it.
        const wrong = { upstream: { url: upstream.url, cache: { maxBytes: 1_000_000 } } }
        // Nothing runs in the cluster, so no node is what keeps the new pod from being ready.
        await upgrade({ pod: { nodeSelector: { no: 'node' } } }, wrong)
        const pending = await untilInCluster(
          'the new pod is there',
          async () => (await podsOf('gateway'))[0],
          ROLLOUT_MS,
        )
        // All gateways of this test share their ports.
        await gateway.stop()
        const exit = await (await kubelet.start(pending)).exited
        expect([exit.code, exit.stderr + exit.stdout]).toEqual([
          78,
          expect.stringContaining('upstream.cache.maxBytes'),
        ])
        expect(valueAt(await workload('gateway'), 'status.availableReplicas')).toBe(2)
        gateway = await runFirst('gateway', false)
        expect(await request()).toBe(200)
      })

      it('rolled back, it has the settings before, and no pod of the broken revision', async () => {
        const { ok, stderr } = await cluster.helm(['rollback', RELEASE, '-n', NAMESPACE])
        expect(ok, stderr).toBe(true)
        await rolledOut('gateway', 2)
        await gateway.stop()
        gateway = await runFirst('gateway')
        expect(await request()).toBe(200)
      })

      it('scaled, it has that many pods; with autoscaling the controller finds it, and alone sets the number', async () => {
        await upgrade({ replicas: 4 })
        await rolledOut('gateway', 4)
        await upgrade({ autoscaling: { enabled: true, minReplicas: 3, maxReplicas: 6 } })
        await untilInCluster(
          'the autoscaler found the Deployment',
          async () => {
            const autoscaler = await cluster.get('horizontalpodautoscaler', `${NAME}-gateway`, NAMESPACE)
            const found = listAt(autoscaler, 'status.conditions').find(({ type }) => type === 'AbleToScale')
            return found?.['status'] === 'True'
          },
          ROLLOUT_MS,
        )
        await untilInCluster(
          'the autoscaler has set its minimum',
          async () => valueAt(await workload('gateway'), 'spec.replicas') === 3,
          ROLLOUT_MS,
        )
      })

      it('uninstalled and installed again, it has the secrets of before, and the key is valid', async () => {
        const before = at(await generated(), 'data')
        await Promise.all([gateway.stop(), console_.stop()])
        const { ok, stderr } = await cluster.helm(['uninstall', RELEASE, '-n', NAMESPACE])
        expect(ok, stderr).toBe(true)
        await untilInCluster(
          'no pod is left',
          async () => (await cluster.list('pods', NAMESPACE)).length === 0,
          ROLLOUT_MS,
        )
        expect(await cluster.list('deployments', NAMESPACE)).toEqual([])
        // A Redis without data, so that the gateway asks the console.
        await redis.kill()
        await redis.revive()
        await upgrade()
        await Promise.all([rolledOut('gateway', 2), rolledOut('console', 2)])
        expect(at(await generated(), 'data')).toEqual(before)
        console_ = await runFirst('console')
        gateway = await runFirst('gateway')
        expect(await request()).toBe(200)
      })
    },
  )
