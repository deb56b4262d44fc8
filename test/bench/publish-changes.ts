import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { deriveMessageKey, encodeMessage } from '../../src/domain/invalidation-message.ts'
import { DEFAULT_REGION } from '../../src/domain/region.ts'
import { CHANGES_CHANNEL } from '../../src/domain/wire.ts'

/** Publishes changes as the console does, at an even rate, until stopped. Arguments: port of Redis, file of digests, changes per second, signing secret in base64. */
const [port, file, perSecond] = [Number(process.argv[2]), process.argv[3] ?? '', Number(process.argv[4])]
const messageKey = deriveMessageKey(Buffer.from(process.argv[5] ?? '', 'base64'))
const EVERY_MS = 4

const digests = readFileSync(file, 'utf8').trimEnd().split('\n')
const redis = connect(port, '127.0.0.1').resume()
redis.once('connect', () => {
  const beganMs = performance.now()
  let published = 0
  setInterval(() => {
    const due = Math.floor(((performance.now() - beganMs) / 1000) * perSecond)
    let commands = ''
    for (; published < due; published++) commands += publish(published)
    redis.write(commands)
  }, EVERY_MS)
  process.stdout.write('publishing\n')
})
process.on('SIGTERM', () => process.exit())

/** The version grows with each pass over the digests, because a repeated version changes nothing. */
function publish(number: number): string {
  const digest = digests[number % digests.length] ?? ''
  const version = 2 + Math.floor(number / digests.length)
  const sent = { region: DEFAULT_REGION, sender: 'bench', atMs: Date.now() }
  const change = { kind: 'change', ...sent, digest, version } as const
  const text = encodeMessage(change, messageKey)
  const words = ['PUBLISH', CHANGES_CHANNEL, text].map(word => `$${word.length}\r\n${word}\r\n`)
  return `*${words.length}\r\n${words.join('')}`
}
