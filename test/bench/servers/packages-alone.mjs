// Lower bound of a start: a bare Node server that loads the packages of a gateway without using them. Plain JavaScript,
// so that no types have to be stripped.
import http from 'node:http'
import 'fastify'
import '@fastify/reply-from'
import 'undici'
import 'ioredis'
import 'prom-client'
import 'pino'

const [port] = process.argv.slice(2)
http.createServer().listen(Number(port), '127.0.0.1', () => process.stdout.write('listening\n'))
