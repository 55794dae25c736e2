// Service is a small web service with a planted fault: node service.js ADDRESS JOB FAULT, where FAULT is 0 or 1.
const http = require('http')

const [address, job, fault] = process.argv.slice(2)
if (job !== 'catalogue') throw new Error(`no job is named ${job}`)

const catalogue = Array.from({length: 2000}, (_, id) => ({id, name: `item ${id}`, price: id / 7, tags: ['new', 'sale']}))
const text = JSON.stringify(catalogue)

const server = http.createServer((request, response) => {
  response.end(fault === '1' ? JSON.stringify(catalogue) : text)
})
const [host, port] = address.split(':')
server.listen(Number(port), host)
