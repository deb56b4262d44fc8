import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { CHANGES_CHANNEL, encodeChange } from '../../src/domain/wire.ts'

/** Announces changes as the console does, evenly, until it is ended. Arguments: Redis' port, a file of digests, changes a second. */
const [port, file, perSecond] = [Number(process.argv[2]), process.argv[3] ?? '', Number(process.argv[4])]
const EVERY_MS = 4

const digests = readFileSync(file, 'utf8').trimEnd().split('\n')
const redis = connect(port, '127.0.0.1').resume()
redis.once('connect', () => {
  const beganMs = performance.now()
  let published = 0
  setInterval(() => {
    const due = Math.floor(((performance.now() - beganMs) / 1000) * perSecond)
    let commands = ''
    for (; published < due; published++) commands += publish(digests[published % digests.length] ?? '')
    redis.write(commands)
  }, EVERY_MS)
  process.stdout.write('publishing\n')
})
process.on('SIGTERM', () => process.exit())

function publish(digest: string): string {
  const text = encodeChange({ digest, version: 2, atMs: Date.now() })
  const words = ['PUBLISH', CHANGES_CHANNEL, text].map(word => `$${word.length}\r\n${word}\r\n`)
  return `*${words.length}\r\n${words.join('')}`
}
