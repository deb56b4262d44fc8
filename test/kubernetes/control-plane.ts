import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { Agent, get as sendGet } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { stringify } from 'yaml'
import { freePort } from '../support/free-port.ts'
import { listAt, type Manifest } from '../support/manifests.ts'
import { until } from '../support/until.ts'
import { programOf } from './control-plane-programs.ts'
import { kwokConfig } from './kwok-config.ts'

const START_DEADLINE_MS = 90_000
const VOLUMES = 40
const COMMAND_DEADLINE_MS = 120_000
/** Several tests wait at once, for what takes seconds, and each question costs the API server a millisecond. */
const LONGEST_PAUSE_MS = 200
/** Where the API has the kinds that tests ask for while they wait. */
const PATHS: Readonly<Record<string, string>> = {
  configmap: '/api/v1',
  cronjob: '/apis/batch/v1',
  deployment: '/apis/apps/v1',
  externalsecret: '/apis/external-secrets.io/v1',
  horizontalpodautoscaler: '/apis/autoscaling/v2',
  networkpolicy: '/apis/networking.k8s.io/v1',
  persistentvolumeclaim: '/api/v1',
  pod: '/api/v1',
  scaledobject: '/apis/keda.sh/v1alpha1',
  secret: '/api/v1',
  service: '/api/v1',
  statefulset: '/apis/apps/v1',
}

export interface CommandResult {
  readonly ok: boolean
  readonly stdout: string
  readonly stderr: string
}

export interface RunOptions {
  readonly environment?: Readonly<Record<string, string>>
  readonly cwd?: string
}

/**
 * A real API server with etcd, controllers and scheduler, and two nodes without machines: pods run nothing and become ready.
 * It shows what Kubernetes does with objects; not containers, networks, volumes and grace periods.
 */
export class ControlPlane {
  readonly #directory = mkdtempSync(join(tmpdir(), 'postern-kubernetes-'))
  readonly #processes: ChildProcess[] = []
  readonly #token = randomBytes(16).toString('hex')
  // The certificate is the API server's own.
  readonly #agent = new Agent({ keepAlive: true, rejectUnauthorized: false })
  #port = 0

  static async start(): Promise<ControlPlane> {
    const plane = new ControlPlane()
    try {
      await plane.#startServers()
      await plane.#addNodes()
      return plane
    } catch (error) {
      await plane.stop()
      throw error
    }
  }

  get kubeconfig(): string {
    return join(this.#directory, 'kubeconfig')
  }

  /** @throws if it fails */
  async kubectl(...args: string[]): Promise<string> {
    return await this.#succeed(await this.#run(programOf('kubectl'), args), args)
  }

  helm(args: readonly string[], input = ''): Promise<CommandResult> {
    return this.#run('helm', args, input)
  }

  /** Any program that reads KUBECONFIG. */
  run(program: string, args: readonly string[], options: RunOptions = {}): Promise<CommandResult> {
    return this.#run(program, args, '', options)
  }

  async apply(...objects: readonly object[]): Promise<void> {
    const args = ['apply', '-f', '-']
    const input = objects.map(object => stringify(object)).join('---\n')
    await this.#succeed(await this.#run(programOf('kubectl'), args, input), args)
  }

  /** What the API says to new objects, whether it takes them or not. */
  create(objects: readonly object[], ...flags: readonly string[]): Promise<CommandResult> {
    const input = objects.map(object => stringify(object)).join('---\n')
    return this.#run(programOf('kubectl'), ['create', '-f', '-', ...flags], input)
  }

  /** @throws if it does not exist */
  async get(kind: string, name: string, namespace: string): Promise<Manifest> {
    return JSON.parse(await this.#read(`${pathOf(kind, namespace)}/${name}`)) as Manifest
  }

  async list(kind: string, namespace: string): Promise<readonly Manifest[]> {
    return listAt(JSON.parse(await this.#read(pathOf(kind, namespace))), 'items')
  }

  /** Objects of several kinds, as kubectl knows them. */
  async listAll(kinds: string, namespace: string): Promise<readonly Manifest[]> {
    return listAt(JSON.parse(await this.kubectl('-n', namespace, 'get', kinds, '-o', 'json')), 'items')
  }

  async stop(): Promise<void> {
    for (const child of this.#processes.toReversed()) {
      if (child.exitCode !== null || child.signalCode !== null) continue
      child.kill('SIGKILL')
      await once(child, 'exit')
    }
    this.#agent.destroy()
    rmSync(this.#directory, { recursive: true, force: true })
  }

  /** Without a process for each question: a test that waits asks many times a second. @throws unless the answer is 200 */
  async #read(path: string): Promise<string> {
    const headers = { authorization: `Bearer ${this.#token}` }
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
    const options = { agent: this.#agent, headers, timeout: COMMAND_DEADLINE_MS }
    const request = sendGet(`https://127.0.0.1:${this.#port}${path}`, options, resolve)
    request.on('error', reject)
    request.on('timeout', () => request.destroy(new Error(`No answer to GET ${path}`)))
    const response = await promise
    const body = await text(response)
    if (response.statusCode !== 200) throw new Error(`GET ${path}: ${response.statusCode} ${body}`)
    return body
  }

  async #startServers(): Promise<void> {
    const [store, peers, api] = [await freePort(), await freePort(), await freePort()]
    const local = (port: number) => `http://127.0.0.1:${port}`
    this.#port = api
    this.#writeFiles(api)
    const config = `--kubeconfig=${this.kubeconfig}`
    this.#spawn('etcd', [
      `--data-dir=${join(this.#directory, 'etcd')}`,
      `--listen-client-urls=${local(store)}`,
      `--advertise-client-urls=${local(store)}`,
      `--listen-peer-urls=${local(peers)}`,
      `--initial-advertise-peer-urls=${local(peers)}`,
      `--initial-cluster=default=${local(peers)}`,
      '--unsafe-no-fsync',
    ])
    this.#spawn('kube-apiserver', [
      `--etcd-servers=${local(store)}`,
      `--secure-port=${api}`,
      '--bind-address=127.0.0.1',
      '--advertise-address=127.0.0.1',
      `--cert-dir=${join(this.#directory, 'certificates')}`,
      '--service-account-issuer=https://kubernetes.default.svc',
      `--service-account-key-file=${join(this.#directory, 'accounts.pub')}`,
      `--service-account-signing-key-file=${join(this.#directory, 'accounts.key')}`,
      `--token-auth-file=${join(this.#directory, 'tokens.csv')}`,
      '--authorization-mode=RBAC',
      '--service-cluster-ip-range=10.96.0.0/16',
      '--endpoint-reconciler-type=none',
      '--kubelet-preferred-address-types=InternalIP',
      '--enable-admission-plugins=NodeRestriction,PodSecurity',
    ])
    await until('the API server is ready', () => this.#isReady(), START_DEADLINE_MS)
    const common = [config, '--bind-address=127.0.0.1', '--leader-elect=false', '--secure-port=0']
    const accounts = `--service-account-private-key-file=${join(this.#directory, 'accounts.key')}`
    // At the usual 15 s, an autoscaler would add its pods when a test already takes the Deployment for complete.
    const autoscaling = '--horizontal-pod-autoscaler-sync-period=1s'
    this.#spawn('kube-controller-manager', [...common, accounts, autoscaling])
    this.#spawn('kube-scheduler', common)
  }

  #writeFiles(port: number): void {
    const write = (name: string, text: string) => writeFileSync(join(this.#directory, name), text)
    const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
    write('accounts.pub', publicKey.export({ type: 'spki', format: 'pem' }).toString())
    write('accounts.key', privateKey.export({ type: 'pkcs8', format: 'pem' }).toString())
    write('tokens.csv', `${this.#token},admin,admin,system:masters\n`)
    const cluster = { server: `https://127.0.0.1:${port}`, 'insecure-skip-tls-verify': true }
    const config = {
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'test', cluster }],
      users: [{ name: 'test', user: { token: this.#token } }],
      contexts: [{ name: 'test', context: { cluster: 'test', user: 'test' } }],
      'current-context': 'test',
    }
    write('kubeconfig', stringify(config))
  }

  async #addNodes(): Promise<void> {
    const file = join(this.#directory, 'kwok.yaml')
    writeFileSync(file, kwokConfig(this.#directory))
    const port = await freePort()
    const certificate = join(this.#directory, 'certificates/apiserver')
    this.#spawn('kwok', [
      `--kubeconfig=${this.kubeconfig}`,
      '--manage-all-nodes=true',
      `--config=${file}`,
      `--server-address=127.0.0.1:${port}`,
      '--node-ip=127.0.0.1',
      `--node-port=${port}`,
      `--tls-cert-file=${certificate}.crt`,
      `--tls-private-key-file=${certificate}.key`,
    ])
    // For the pods of a whole file: nothing is uninstalled.
    const room = { cpu: '256', memory: '1024Gi', pods: '1000' }
    await this.apply(
      ...['a', 'b'].map(name => ({
        apiVersion: 'v1',
        kind: 'Node',
        metadata: {
          name,
          labels: {
            'kubernetes.io/os': 'linux',
            'kubernetes.io/hostname': name,
            'topology.kubernetes.io/zone': name,
          },
        },
        status: { allocatable: room, capacity: room },
      })),
      // Nothing provisions volumes here; a claim takes one of these.
      ...Array.from({ length: VOLUMES }, (_, number) => ({
        apiVersion: 'v1',
        kind: 'PersistentVolume',
        metadata: { name: `volume-${number}` },
        spec: {
          capacity: { storage: '8Gi' },
          accessModes: ['ReadWriteOnce'],
          hostPath: { path: '/nowhere' },
        },
      })),
    )
  }

  #isReady(): Promise<boolean> {
    return this.#read('/readyz').then(
      () => true,
      () => false,
    )
  }

  #spawn(name: string, args: readonly string[]): void {
    const log = openSync(join(this.#directory, `${name}.log`), 'w')
    this.#processes.push(spawn(programOf(name), args, { cwd: this.#directory, stdio: ['ignore', log, log] }))
  }

  async #succeed({ ok, stdout, stderr }: CommandResult, args: readonly string[]): Promise<string> {
    if (!ok) throw new Error(`kubectl ${args.join(' ')}: ${stderr}`)
    return stdout
  }

  #run(
    program: string,
    args: readonly string[],
    input = '',
    { environment = {}, cwd }: RunOptions = {},
  ): Promise<CommandResult> {
    const { promise, resolve } = Promise.withResolvers<CommandResult>()
    const home = join(this.#directory, 'helm')
    const own = { KUBECONFIG: this.kubeconfig, HELM_CACHE_HOME: home, HELM_CONFIG_HOME: home }
    const env = { ...process.env, ...own, ...environment }
    const options = { env, cwd, maxBuffer: 64 * 1024 * 1024, timeout: COMMAND_DEADLINE_MS }
    const child = execFile(program, args, options, (error, stdout, stderr) =>
      resolve({ ok: error === null, stdout, stderr }),
    )
    child.stdin?.end(input)
    return promise
  }
}

/** `until`, for what the cluster says. */
export function untilInCluster<Value>(
  what: string,
  check: () => Value | Promise<Value>,
  timeoutMs: number,
): Promise<NonNullable<Exclude<Value, false>>> {
  return until(what, check, timeoutMs, LONGEST_PAUSE_MS)
}

/** @param kind in the singular or plural */
function pathOf(kind: string, namespace: string): string {
  const singular = kind.toLowerCase().replace(/ies$/, 'y').replace(/s$/, '')
  const path = PATHS[singular]
  if (path === undefined) throw new Error(`Where is the kind ${kind}?`)
  const plural = singular.endsWith('y') ? `${singular.slice(0, -1)}ies` : `${singular}s`
  return `${path}/namespaces/${namespace}/${plural}`
}
