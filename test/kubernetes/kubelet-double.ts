import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { settingsFileOf } from '../support/chart.ts'
import { at, listAt, type Manifest, textAt, valueAt } from '../support/manifests.ts'
import { type Exit, PosternProcess, PROGRAM } from '../support/postern-process.ts'
import { V8_FLAGS } from '../support/start-arguments.ts'

/** The image's entrypoint. */
const ENTRYPOINT = [process.execPath, ...V8_FLAGS, ...PROGRAM]
/** As the chart's startup probe allows. */
const LISTENING_MS = 120_000
/** Every pod has the loopback in place of an address of its own. */
const POD_ADDRESS = {
  POSTERN_GATEWAY_HOST: '127.0.0.1',
  POSTERN_CONSOLE_HOST: '127.0.0.1',
  POSTERN_CONSOLE_INTERNAL_HOST: '127.0.0.1',
  POSTERN_OPS_HOST: '127.0.0.1',
}

/** Objects of a cluster: those of an API server, or rendered ones. */
export interface ClusterObjects {
  get(kind: string, name: string, namespace: string): Promise<Manifest>
  list(kind: string, namespace: string): Promise<readonly Manifest[]>
}

/** What a pod finds besides the objects of its cluster. */
export interface Surroundings {
  /** Addresses outside of the cluster, each with the local one in its place. */
  readonly addresses?: readonly (readonly [string, string])[]
  /** Files that another container of the pod writes before this one starts, by their path in their volume. */
  readonly written?: Readonly<Record<string, ReadonlyMap<string, string>>>
}

export interface RunningPod {
  readonly process: PosternProcess
  /** Address of a port of the container, by its name. */
  urlOf(port: string): string
  /** As a kubelet ends a container: SIGTERM. */
  stop(): Promise<Exit>
}

/**
 * Plays the kubelet for the program: a process with the command, environment and files that a pod of the API server has. A
 * folder stands in for the root of the container, and the loopback for addresses of pods and Services; texts that name them
 * are rewritten. A claim is an empty folder of the pod. Limits, users and read-only file systems are not applied.
 */
export class KubeletDouble {
  readonly #cluster: ClusterObjects
  readonly #namespace: string
  readonly #roots: string[] = []
  readonly #started: PosternProcess[] = []

  constructor(cluster: ClusterObjects, namespace: string) {
    this.#cluster = cluster
    this.#namespace = namespace
  }

  /** Starts the first container of a pod, and waits until it listens. */
  async run(pod: Manifest, surroundings: Surroundings = {}): Promise<RunningPod> {
    const process = await this.start(pod, surroundings)
    await process.logged(entry => entry['msg'] === 'listening', LISTENING_MS)
    const urlOf = (port: string) => `http://127.0.0.1:${portOf(pod, port)}`
    return { process, urlOf, stop: () => process.stop('SIGTERM') }
  }

  /** Starts the first container of a pod. */
  async start(pod: Manifest, { addresses = [], written = {} }: Surroundings = {}): Promise<PosternProcess> {
    const container = at(pod, 'spec.containers', '0')
    const root = mkdtempSync(join(tmpdir(), 'postern-pod-'))
    this.#roots.push(root)
    const mounts = listAt(container, 'volumeMounts').map(mount => textAt(mount, 'mountPath'))
    const known = [...(await this.#services()), ...addresses]
    // In one pass, because the root itself is below /tmp, which is a mount.
    const mounted = new RegExp(mounts.join('|'), 'g')
    const rewritten = (text: string) =>
      known.reduce(
        (so, [address, local]) => so.replaceAll(address, local),
        text.replace(mounted, path => join(root, path)),
      )
    for (const mount of listAt(container, 'volumeMounts')) {
      const volume = listAt(pod, 'spec.volumes').find(({ name }) => name === mount['name'])
      const folder = join(root, textAt(mount, 'mountPath'))
      mkdirSync(folder, { recursive: true })
      const files = [...(await this.#filesOf(pod, volume)), ...(written[String(mount['name'])] ?? [])]
      for (const [file, content] of files) {
        mkdirSync(dirname(join(folder, file)), { recursive: true })
        writeFileSync(join(folder, file), rewritten(content))
        chmodSync(join(folder, file), 0o440)
      }
    }
    const environment = listAt(container, 'env').map(entry => [
      textAt(entry, 'name'),
      rewritten(textAt(entry, 'value')),
    ])
    const command = (valueAt(container, 'command') ?? ENTRYPOINT) as string[]
    const process = new PosternProcess(
      ((valueAt(container, 'args') ?? []) as string[]).map(rewritten),
      { ...(Object.fromEntries(environment) as Record<string, string>), ...POD_ADDRESS },
      command,
    )
    this.#started.push(process)
    return process
  }

  async stop(): Promise<void> {
    for (const process of this.#started) await process.stop()
    for (const root of this.#roots) rmSync(root, { recursive: true, force: true })
  }

  /** Files of a volume, by their path in it. @throws if this double does not know its kind */
  async #filesOf(pod: Manifest, volume: Manifest | undefined): Promise<[string, string][]> {
    if (volume === undefined) throw new Error('A mount names a volume that the pod does not have')
    if ('emptyDir' in volume || 'persistentVolumeClaim' in volume) return []
    if ('downwardAPI' in volume) return [['postern.yaml', settingsFileOf(pod)]]
    if ('configMap' in volume) return this.#filesOfMap('configmap', textAt(volume, 'configMap.name'))
    const files: [string, string][] = []
    for (const source of listAt(volume, 'projected.sources')) {
      const kind = 'secret' in source ? 'secret' : 'configMap'
      const found = new Map(await this.#filesOfMap(kind, textAt(source, `${kind}.name`)))
      for (const item of listAt(source, `${kind}.items`)) {
        const content = found.get(textAt(item, 'key'))
        if (content === undefined) throw new Error(`The ${kind} has no key ${textAt(item, 'key')}`)
        files.push([textAt(item, 'path'), content])
      }
    }
    if (files.length === 0) throw new Error(`Unknown kind of volume: ${JSON.stringify(volume)}`)
    return files
  }

  async #filesOfMap(kind: string, name: string): Promise<[string, string][]> {
    const data = at(await this.#cluster.get(kind, name, this.#namespace), 'data')
    return Object.entries(data).map(([key, value]) => [
      key,
      kind === 'secret' ? Buffer.from(String(value), 'base64').toString() : String(value),
    ])
  }

  /** What the cluster's DNS and proxy do: an address of a Service leads to a port of the pods that it selects. */
  async #services(): Promise<[string, string][]> {
    const pods = await this.#cluster.list('pods', this.#namespace)
    const addresses: [string, string][] = []
    for (const service of await this.#cluster.list('services', this.#namespace)) {
      const wanted = Object.entries(at(service, 'spec.selector'))
      const pod = pods.find(candidate =>
        wanted.every(([label, value]) => valueAt(candidate, 'metadata.labels', label) === value),
      )
      for (const port of pod === undefined ? [] : listAt(service, 'spec.ports')) {
        const address = `${textAt(service, 'metadata.name')}:${String(port['port'])}`
        addresses.push([`//${address}`, `//127.0.0.1:${portOf(pod, textAt(port, 'targetPort'))}`])
      }
    }
    return addresses
  }
}

function portOf(pod: unknown, name: string): number {
  const port = listAt(pod, 'spec.containers', '0', 'ports').find(candidate => candidate['name'] === name)
  if (port === undefined) throw new Error(`The container has no port ${name}`)
  return Number(port['containerPort'])
}
