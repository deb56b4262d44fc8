// The floor of a start: a bare Node server beside the packages that a gateway is made of, none of which it uses. Plain
// JavaScript, so that nothing has to be stripped.
import http from 'node:http'
import 'fastify'
import '@fastify/reply-from'
import 'undici'
import 'ioredis'
import 'prom-client'
import 'pino'

const [port] = process.argv.slice(2)
http.createServer().listen(Number(port), '127.0.0.1', () => process.stdout.write('listening\n'))
