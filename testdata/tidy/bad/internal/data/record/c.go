package record

const most = 7

var usual = Record{}
