// Service is a small web service with planted faults: node service.js ADDRESS JOB FAULT, where FAULT is 0 or 1.
const fs = require('fs')
const http = require('http')

const [address, job, planted] = process.argv.slice(2)
const fault = planted === '1'

// Each job begins, and returns what answers a request: by its value, or later by the function that it gets.
const jobs = {
  // The catalogue as JSON, which is written once or for each request.
  catalogue() {
    const catalogue = Array.from({length: 2000}, (_, id) => ({id, name: `item ${id}`, price: id / 7, tags: ['new', 'sale']}))
    const text = JSON.stringify(catalogue)
    return () => fault ? JSON.stringify(catalogue) : text
  },
  // A page of a file of 8 MiB, which is read once or for each request.
  manual() {
    const name = `manual-${process.pid}`
    fs.writeFileSync(name, Buffer.alloc(8 << 20, 'a line of the manual\n'))
    const text = fs.readFileSync(name)
    return () => (fault ? fs.readFileSync(name) : text).subarray(0, 1024)
  },
  // A short text, while a timer computes or does not.
  interval() {
    const statistics = () => {
      for (const end = performance.now() + 10; performance.now() < end;);
    }
    if (fault) setInterval(statistics, 25)
    return () => 'a text\n'
  },
  // A short text, beside a buffer that nobody uses, or without.
  spare() {
    const spare = Buffer.alloc(fault ? 64 << 20 : 0)
    return () => spare.length < 0 ? '' : 'a text\n'
  },
  // Whether a name with a mark at its end is a list of words, by a pattern that tries one way to split it or all.
  check() {
    const pattern = fault ? /^(\w+\s?)*$/ : /^\w+(\s\w+)*$/
    return () => `${pattern.test('warehouse_stuttgart!')}\n`
  },
  // A text after a query, which waits 1 ms or 20 ms for others, so that one batch holds them all.
  batch() {
    let waiting = []
    const query = () => {
      for (const send of waiting) send('found\n')
      waiting = []
    }
    return send => {
      if (waiting.push(send) > 1) return
      setTimeout(query, fault ? 20 : 1)
    }
  },
}
if (!jobs[job]) throw new Error(`no job is named ${job}`)

const answer = jobs[job]()
const server = http.createServer((request, response) => {
  const text = answer(text => response.end(text))
  if (text !== undefined) response.end(text)
})
const [host, port] = address.split(':')
server.listen(Number(port), host)
