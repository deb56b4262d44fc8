import { beforeAll, describe, expect, it } from 'vitest'
import { stringify } from 'yaml'
import { CHART, NAME, RELEASE, settingsFileOf, type Values, WITH_CONSOLE } from '../support/chart.ts'
import { at, textAt, valueAt } from '../support/manifests.ts'
import { type ControlPlane, untilInCluster } from './control-plane.ts'
import { POD_LOG } from './kwok-config.ts'
import { type Part, STEP_MS } from './on-control-plane.ts'

/** An operator's own entry, and a second signing secret. */
const EDIT = JSON.stringify({ stringData: { 'keys-signing-secrets': 'one,two', more: 'x' } })
/** A pod is removed once its grace period has passed. */
const SHORT_DRAIN = {
  ...WITH_CONSOLE,
  config: { ...WITH_CONSOLE.config, drain: { delayMs: 0, timeoutMs: 0 } },
}
const ROLLOUT_MS = 60_000

let cluster: ControlPlane

/** Installs or upgrades in the namespace, without waiting. @throws with Helm's error */
async function install(namespace: string, values: Values, ...flags: string[]): Promise<void> {
  const { ok, stderr } = await tryInstall(namespace, values, ...flags)
  if (!ok) throw new Error(stderr)
}

function tryInstall(namespace: string, values: Values, ...flags: string[]) {
  const args = ['upgrade', '--install', RELEASE, CHART, '-n', namespace, '-f', '-', ...flags]
  return cluster.helm(args, stringify(values))
}

/** A namespace that accepts only restricted pods, which a test has to itself. */
async function makeNamespace(name: string): Promise<string> {
  const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' }
  await cluster.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } })
  return name
}

/** Installs, tests and repairs releases. */
export const describeRelease: Part = shared =>
  describe('a release', { concurrent: true, timeout: STEP_MS }, () => {
    beforeAll(() => {
      cluster = shared()
    })

    it('gateway and console become ready in a restricted namespace, and keep their secrets on upgrade', async () => {
      const namespace = await makeNamespace('whole')
      await install(namespace, WITH_CONSOLE)
      await untilInCluster('both are ready', () => isRolledOut(namespace), ROLLOUT_MS)
      await cluster.kubectl('-n', namespace, 'patch', 'secret', `${NAME}-generated`, '-p', EDIT)
      const secret = await cluster.get('secret', `${NAME}-generated`, namespace)
      await install(namespace, { ...WITH_CONSOLE, gateway: { replicas: 3 } })
      expect(at(await cluster.get('secret', `${NAME}-generated`, namespace), 'data')).toEqual(
        at(secret, 'data'),
      )
      await untilInCluster('the third gateway is ready', () => isRolledOut(namespace, 3), ROLLOUT_MS)
    })

    it('helm test passes and prints the log of its pod, and reads no other hook as a pod', async () => {
      const namespace = await makeNamespace('tested')
      await install(namespace, { ...WITH_CONSOLE, networkPolicy: { enabled: true } })
      await untilInCluster('both are ready', () => isRolledOut(namespace), ROLLOUT_MS)
      const { ok, stdout, stderr } = await cluster.helm(['test', RELEASE, '-n', namespace, '--logs'])
      expect(ok, stdout + stderr).toBe(true)
      expect(stdout).toContain(`POD LOGS: ${NAME}-test`)
      expect(stdout).toContain(POD_LOG)
      const policies = (await cluster.list('networkpolicies', namespace)).map(object =>
        textAt(object, 'metadata.name'),
      )
      expect(policies).toContain(`${NAME}-test`)
    })

    it('a console with regions and the gateways of another region become ready, each in a namespace of its own', async () => {
      const file = (name: string) => ['-f', `${CHART}ci/${name}-values.yaml`]
      const readyOf = async (namespace: string, plane: string) =>
        valueAt(await cluster.get('deployment', `${NAME}-${plane}`, namespace), 'status.readyReplicas')
      const home = await makeNamespace('regions-console')
      const away = await makeNamespace('region-gateways')
      await install(home, {}, ...file('regions-console'))
      await install(away, {}, ...file('region-gateways'))
      await untilInCluster(
        'all are ready',
        async () =>
          (await readyOf(home, 'console')) === 2 &&
          (await readyOf(home, 'gateway')) === 2 &&
          (await readyOf(away, 'gateway')) === 3,
        ROLLOUT_MS,
      )
      const internal = await cluster.get('service', `${NAME}-console-internal`, home)
      expect(valueAt(internal, 'spec.type')).toBe('LoadBalancer')
      expect(await cluster.list('secrets', away)).toHaveLength(1)
    })

    it('a console whose pod cannot start is healed by a rollback', async () => {
      const namespace = await makeNamespace('rollback')
      await install(namespace, SHORT_DRAIN)
      await untilInCluster('the console is ready', () => isRolledOut(namespace), ROLLOUT_MS)
      // No node has this label, so the new pod stays pending.
      await install(namespace, {
        ...SHORT_DRAIN,
        console: { enabled: true, pod: { nodeSelector: { no: 'node' } } },
      })
      await untilInCluster(
        'the new pod is pending',
        async () => (await phaseOf(namespace)) === 'Pending',
        ROLLOUT_MS,
      )
      expect((await cluster.helm(['rollback', RELEASE, '1', '-n', namespace])).ok).toBe(true)
      await untilInCluster(
        'the console is ready again',
        async () => (await phaseOf(namespace)) === 'Running',
        ROLLOUT_MS,
      )
    })

    it('kubectl rollout undo restores the settings of every revision that is kept, also with the same settings in between', async () => {
      const namespace = await makeNamespace('undo')
      const workload = () => cluster.get('deployment', `${NAME}-gateway`, namespace)
      const levelOf = async () =>
        /level: (\w+)/.exec(settingsFileOf(at(await workload(), 'spec.template')))?.[1] ?? 'none'
      const changeTo = (level: string) =>
        install(namespace, {
          ...WITH_CONSOLE,
          gateway: { revisionHistoryLimit: 2 },
          config: { ...WITH_CONSOLE.config, log: { level } },
        })
      // The first settings again, after others: the oldest of all by age, and in use.
      const sequence = ['info', 'warn', 'error', 'debug', 'info']
      for (const level of sequence) await changeTo(level)
      expect(await levelOf()).toBe('info')
      for (const expected of ['debug', 'info']) {
        await cluster.kubectl('-n', namespace, 'rollout', 'undo', `deployment/${NAME}-gateway`)
        expect(await levelOf()).toBe(expected)
      }
      // Only the tests' own: nothing else exists that could be deleted too early.
      const maps = (await cluster.list('configmaps', namespace)).map(object =>
        textAt(object, 'metadata.name'),
      )
      expect(maps.filter(name => name.startsWith(NAME))).toEqual([`${NAME}-test`])
    })
  })

async function isRolledOut(namespace: string, gateways = 2): Promise<boolean> {
  const gateway = await cluster.get('deployment', `${NAME}-gateway`, namespace)
  const console = await cluster.get('statefulset', `${NAME}-console`, namespace)
  return (
    valueAt(gateway, 'status.readyReplicas') === gateways && valueAt(console, 'status.readyReplicas') === 1
  )
}

async function phaseOf(namespace: string): Promise<string> {
  const pods = await cluster.list('pods', namespace)
  const pod = pods.find(object => textAt(object, 'metadata.name').startsWith(`${NAME}-console`))
  return pod === undefined ? 'none' : textAt(pod, 'status.phase')
}
