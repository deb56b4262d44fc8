/**
 * Plays kubectl for the commands of the runbooks: pods are processes of this machine. The file NIGHT_PODS lists them, and the
 * time of the fault is now.
 */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import type { NightPod } from './night-world.ts'

const SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600 }
const pods = JSON.parse(readFileSync(process.env['NIGHT_PODS'] ?? '', 'utf8')) as readonly NightPod[]
const words = process.argv.slice(2)
const [verb = '', resource = ''] = words.slice(2)
const print = (line: string) => void process.stdout.write(`${line}\n`)
const after = (flag: string) => words[words.indexOf(flag) + 1] ?? ''

/** Those that `-l` selects, or the one that is named. */
function selected(): readonly NightPod[] {
  const name = words.find(word => word.startsWith('pod/'))?.slice(4)
  if (name !== undefined) return pods.filter(pod => pod.name === name)
  const plane = /component=(\w+)/.exec(words.includes('-l') ? after('-l') : '')?.[1]
  return pods.filter(pod => plane === undefined || pod.plane === plane)
}

function printLogs(): void {
  const since = /--since=(\d+)([smh])/.exec(words.join(' '))
  const fromMs = since === null ? 0 : Date.now() - Number(since[1]) * (SECONDS[since[2] ?? ''] ?? 1) * 1000
  const tail = Number(/--tail=(\d+)/.exec(words.join(' '))?.[1] ?? Number.POSITIVE_INFINITY)
  for (const { name, log } of selected()) {
    const prefix = words.includes('--prefix') ? `[pod/${name}/postern] ` : ''
    const lines = readFileSync(log, 'utf8')
      .split('\n')
      .filter(line => timeOf(line) >= fromMs)
    for (const line of lines.slice(-Math.min(tail, lines.length))) print(prefix + line)
  }
}

function timeOf(line: string): number {
  const time = /"time":("[^"]+"|\d+)/.exec(line)?.[1]
  return time === undefined
    ? Number.NEGATIVE_INFINITY
    : new Date(JSON.parse(time) as string | number).getTime()
}

function forwardPort(): void {
  const [local, remote] = (words.find(word => /^\d+:\d+$/.test(word)) ?? '').split(':').map(Number)
  const port = selected()[0]?.ports[remote ?? 0]
  createServer(client => {
    const server = connect(port ?? 0, '127.0.0.1')
    client.on('error', () => {}).on('close', () => server.destroy())
    server.on('error', () => {}).on('close', () => client.destroy())
    client.pipe(server).pipe(client)
  }).listen(local, '127.0.0.1')
}

/** What runs in a pod has its settings. */
function execute(): void {
  const [program = '', ...args] = words.slice(words.indexOf('--') + 1)
  if (!['postern', '/nodejs/bin/node'].includes(program)) throw new Error(`The image has no ${program}`)
  const main = program === 'postern' ? [`${process.cwd()}/dist/main.js`] : []
  const env = { PATH: process.env['PATH'], ...selected()[0]?.env }
  spawnSync(process.execPath, [...main, ...args], { env, stdio: 'inherit' })
}

switch (verb) {
  case 'logs':
    printLogs()
    break
  case 'port-forward':
    forwardPort()
    break
  case 'exec':
    execute()
    break
  case 'get':
    if (resource === 'pods' && words.includes('name')) for (const { name } of selected()) print(`pod/${name}`)
    else
      for (const { name, isRunning } of selected())
        print(`${name}  ${isRunning ? 'Running' : 'CrashLoopBackOff'}`)
    break
  default:
    print(`${verb} ${resource}: as the cluster says`)
}
