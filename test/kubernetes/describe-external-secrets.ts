import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { globSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { goProgram } from '../support/go-module-program.ts'
import { listAt, textAt } from '../support/manifests.ts'
import { startWorld, type World } from '../support/world.ts'
import { type ControlPlane, untilInCluster } from './control-plane.ts'
import { exampleFile, keyIdAtGateway, keysWith, secretValue, tokenForKeys } from './key-examples.ts'
import { EXTERNAL_SECRETS } from './key-programs.ts'
import { type Part, STEP_MS } from './on-control-plane.ts'

const BUILD_MS = 30 * 60_000
const OFTEN = '3s'
/** Kubernetes looks every 30 s for new kinds whose owned objects it has to remove. */
const WAIT_MS = 90_000
const TARGET = 'orders-api-key'

let cluster: ControlPlane
let world: World
let token: string
let controller: ChildProcess
let log = ''

/** The manifests of the page for a console of the test. */
function manifestsFor(console: string, interval: string): object[] {
  const text = exampleFile('external-secrets.yaml').replace('https://console.example.com', console)
  expect(text).not.toContain('example.com')
  return parseAllDocuments(text.replace('refreshInterval: 24h', `refreshInterval: ${interval}`)).map(
    document => document.toJS() as object,
  )
}

/** In a namespace of its own. */
async function deploy(namespace: string, interval = OFTEN): Promise<void> {
  await cluster.kubectl('create', 'namespace', namespace)
  onTestFinished(async () => {
    await cluster.kubectl('-n', namespace, 'delete', 'externalsecret', '--all')
  })
  await saveToken(namespace, token)
  const inside = manifestsFor(world.console.urls.console, interval).map(manifest => ({
    ...manifest,
    metadata: { name: TARGET, namespace },
  }))
  await cluster.apply(...inside)
}

const saveToken = (namespace: string, text: string) =>
  cluster.apply({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: {
      name: 'postern-admin-token',
      namespace,
      labels: { 'external-secrets.io/type': 'webhook' },
    },
    stringData: { token: `${text}\n` },
  })

/** @returns the secret of the next key that the Kubernetes Secret gets */
const nextSecret = (namespace: string, before: string | null = null) =>
  untilInCluster(
    `the Secret in ${namespace} has a new key:\n${log}`,
    async () => {
      const found = await secretValue(cluster, [namespace, TARGET])
      return found === before ? null : found
    },
    WAIT_MS,
  )

async function isReady(namespace: string): Promise<boolean> {
  const conditions = listAt(await cluster.get('externalsecret', TARGET, namespace), 'status.conditions')
  return conditions.some(one => textAt(one, 'type') === 'Ready' && textAt(one, 'status') === 'True')
}

function startController(): void {
  const args = ['--metrics-addr=0', '--enable-secrets-caching=false']
  const env = { ...process.env, KUBECONFIG: cluster.kubeconfig }
  controller = spawn(goProgram(EXTERNAL_SECRETS), args, { env, stdio: ['ignore', 'ignore', 'pipe'] })
  controller.stderr?.setEncoding('utf8').on('data', (text: string) => {
    log = `${log}${text}`.slice(-4000)
  })
}

async function createDefinitions(): Promise<void> {
  const output = execFileSync('go', ['mod', 'download', '-json', EXTERNAL_SECRETS.module], {
    cwd: tmpdir(),
    encoding: 'utf8',
  })
  const { Dir } = JSON.parse(output) as { readonly Dir: string }
  const files = globSync(join(Dir, 'config/crds/bases/*external-secrets.io_*.yaml'))
  await cluster.kubectl('create', ...files.flatMap(file => ['-f', file]))
}

/** Runs the controller of External Secrets itself: see {@link EXTERNAL_SECRETS} for what of it. */
export const describeExternalSecrets: Part = shared =>
  describe('External Secrets with the manifests of docs/keys-as-code.md', { timeout: STEP_MS }, () => {
    beforeAll(async () => {
      cluster = shared()
      goProgram(EXTERNAL_SECRETS)
      await createDefinitions()
      world = await startWorld()
      token = await tokenForKeys(world)
      startController()
    }, BUILD_MS)
    afterAll(async () => {
      if (controller?.exitCode === null && controller.kill()) await once(controller, 'exit')
      await world?.stop()
    })

    it('puts a key into a Secret, and another one at each refresh, while the one before still works', async () => {
      await deploy('refreshed')
      const first = await nextSecret('refreshed')
      const second = await nextSecret('refreshed', first)
      const third = await nextSecret('refreshed', second)
      const ids = await Promise.all([first, second, third].map(secret => keyIdAtGateway(world, secret)))
      expect(new Set(ids).size).toBe(3)
      expect(ids).not.toContain(null)
      expect(await secretValue(cluster, ['refreshed', TARGET], 'key-id')).toMatch(/^key_/)
      // Each ends by itself, three days after it was issued.
      const lifetimes = (await keysWith(world, 'External Secrets')).map(
        ({ createdAt, expiresAt }) => (Date.parse(expiresAt) - Date.parse(createdAt)) / 86_400_000,
      )
      expect(new Set(lifetimes)).toEqual(new Set([3]))
    })

    it('refreshes at once when it is annotated, and otherwise not within its interval', async () => {
      const before = (await keysWith(world, 'External Secrets')).length
      await deploy('annotated', '24h')
      await untilInCluster('the first refresh is complete', () => isReady('annotated'), WAIT_MS)
      const first = await secretValue(cluster, ['annotated', TARGET])
      await cluster.kubectl('-n', 'annotated', 'annotate', 'externalsecret', TARGET, 'force-sync=1')
      const second = await nextSecret('annotated', first)
      expect(await keyIdAtGateway(world, second)).toMatch(/^key_/)
      // The controller can refresh twice in a row, as the page says.
      const issued = (await keysWith(world, 'External Secrets')).length - before
      expect([2, 3, 4]).toContain(issued)
    })

    it('keeps the key that it has while the console rejects the request, and goes on afterwards', async () => {
      await deploy('rejected')
      const first = await nextSecret('rejected')
      await saveToken('rejected', 'wrong')
      await untilInCluster('the refresh has failed', async () => !(await isReady('rejected')), WAIT_MS)
      const kept = await secretValue(cluster, ['rejected', TARGET])
      expect(await keyIdAtGateway(world, kept)).toMatch(/^key_/)

      await saveToken('rejected', token)
      const next = await nextSecret('rejected', kept)
      expect(await keyIdAtGateway(world, next)).toMatch(/^key_/)
      expect(await keyIdAtGateway(world, first)).toMatch(/^key_/)
    })

    it('removes the Secret with the ExternalSecret, and leaves the keys to their expiry', async () => {
      await deploy('removed')
      const first = await nextSecret('removed')
      await cluster.kubectl('-n', 'removed', 'delete', 'externalsecret', TARGET)
      await untilInCluster(
        'the Secret is removed',
        async () => (await secretValue(cluster, ['removed', TARGET])) === null,
        WAIT_MS,
      )
      expect(await keyIdAtGateway(world, first)).toMatch(/^key_/)
    })
  })
