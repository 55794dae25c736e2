package flags

// Certificates lists the flags of tools that read TLS certificates from files.
var Certificates = []Option{
	{"--cacert", File, To("--cacert")},
	{"--cert", File, To("--cert")},
	{"--key", File, To("--key")},
}

// HeyRequest lists the flags of hey that describe a request. oha has taken them over.
var HeyRequest = []Option{
	{"-z", Duration, To("-z")},
	{"-H", Header, HeaderLine},
	{"-A", MediaType, AsHeader("Accept")},
	{"-d", Text, Body},
	{"-D", File, To("-D")},
	{"-T", MediaType, To("-T")},
	{"-a", User, To("--user")},
	{"--host", Text, To("--host")},
	{"--disable-compression", None, Ignored("wirelab asks for no compression")},
	{"--disable-keepalive", None, On("--conn", "new")},
}
